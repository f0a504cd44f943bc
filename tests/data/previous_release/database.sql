BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0003');
CREATE TABLE api_keys (
    key_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    prefix TEXT NOT NULL,
    name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    team_id TEXT,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    CONSTRAINT pk_api_keys PRIMARY KEY (key_id),
    CONSTRAINT uq_api_keys_digest UNIQUE (digest),
    CONSTRAINT fk_api_keys_user_id FOREIGN KEY(user_id) REFERENCES users (user_id),
    CONSTRAINT fk_api_keys_team_id FOREIGN KEY(team_id) REFERENCES teams (team_id)
);
INSERT INTO "api_keys" VALUES('ceb659e27a92151e','da7fce81090afa4e9b42cec21bd0ba6dd145c9e6856140d7a57622dfdca3d774','pdk__gU3ssxB','','cv0uo9g1i9hay7849msrslp8z',NULL,1796107958736000,NULL);
CREATE TABLE attempts (
    run_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    cluster TEXT,
    gpu_type TEXT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    CONSTRAINT pk_attempts PRIMARY KEY (run_id, attempt),
    CONSTRAINT fk_attempts_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO "attempts" VALUES('q3ep8hx85gfpz639donl454d',1,'COMPLETED','','local','CPU',1796107961159000,1796107989676704,1796107991938564);
INSERT INTO "attempts" VALUES('q5evx4dupwrxwk6pvq1k85ne',1,'RUNNING','','local','CPU',1796108009674000,1796108043721963,NULL);
INSERT INTO "attempts" VALUES('pqhclw80wtfsn@HOST@ht70odb14',1,'RUNNING','','local','CPU',1796108044255000,1796108071063227,NULL);
INSERT INTO "attempts" VALUES('jferwt5b4kg5k0b0e2dd447i',1,'QUEUED','needs 2 GPUs: 0 of 4 CPU are free on local',NULL,NULL,1796108071956000,NULL,NULL);
CREATE TABLE counters (
    name TEXT NOT NULL,
    value BIGINT NOT NULL,
    CONSTRAINT pk_counters PRIMARY KEY (name)
);
INSERT INTO "counters" VALUES('queue',4);
CREATE TABLE events (
    event_id INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    time BIGINT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT,
    message TEXT NOT NULL,
    CONSTRAINT pk_events PRIMARY KEY (event_id),
    CONSTRAINT fk_events_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO "events" VALUES(1,'q3ep8hx85gfpz639donl454d',1,1796107961162000,'state','QUEUED','waits for its turn');
INSERT INTO "events" VALUES(2,'q3ep8hx85gfpz639donl454d',1,1796107969562000,'queue',NULL,'promoted to CPU on local');
INSERT INTO "events" VALUES(3,'q3ep8hx85gfpz639donl454d',1,1796107969563000,'state','PENDING','');
INSERT INTO "events" VALUES(4,'q3ep8hx85gfpz639donl454d',1,1796107989507000,'state','CREATING','');
INSERT INTO "events" VALUES(5,'q3ep8hx85gfpz639donl454d',1,1796107990508000,'state','RUNNING','');
INSERT INTO "events" VALUES(6,'q3ep8hx85gfpz639donl454d',1,1796107992569000,'state','COMPLETED','');
INSERT INTO "events" VALUES(7,'q3ep8hx85gfpz639donl454d',1,1796107992619000,'capture',NULL,'running');
INSERT INTO "events" VALUES(8,'q3ep8hx85gfpz639donl454d',1,1796107993528000,'capture',NULL,'done: 19 files, 6153 bytes');
INSERT INTO "events" VALUES(9,'q3ep8hx85gfpz639donl454d',1,1796107993557000,'teardown',NULL,'running');
INSERT INTO "events" VALUES(10,'q3ep8hx85gfpz639donl454d',1,1796108009624000,'teardown',NULL,'done');
INSERT INTO "events" VALUES(11,'q5evx4dupwrxwk6pvq1k85ne',1,1796108009675000,'state','QUEUED','waits for its turn');
INSERT INTO "events" VALUES(12,'q5evx4dupwrxwk6pvq1k85ne',1,1796108014634000,'queue',NULL,'promoted to CPU on local');
INSERT INTO "events" VALUES(13,'q5evx4dupwrxwk6pvq1k85ne',1,1796108014634000,'state','PENDING','');
INSERT INTO "events" VALUES(14,'q5evx4dupwrxwk6pvq1k85ne',1,1796108043926000,'state','RUNNING','');
INSERT INTO "events" VALUES(15,'pqhclw80wtfsn@HOST@ht70odb14',1,1796108044257000,'state','QUEUED','waits for its turn');
INSERT INTO "events" VALUES(16,'pqhclw80wtfsn@HOST@ht70odb14',1,1796108052999000,'queue',NULL,'promoted to CPU on local');
INSERT INTO "events" VALUES(17,'pqhclw80wtfsn@HOST@ht70odb14',1,1796108053000000,'state','PENDING','');
INSERT INTO "events" VALUES(18,'pqhclw80wtfsn@HOST@ht70odb14',1,1796108070921000,'state','CREATING','');
INSERT INTO "events" VALUES(19,'pqhclw80wtfsn@HOST@ht70odb14',1,1796108071897000,'state','RUNNING','');
INSERT INTO "events" VALUES(20,'jferwt5b4kg5k0b0e2dd447i',1,1796108071957000,'state','QUEUED','waits for its turn');
CREATE TABLE facts (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    CONSTRAINT pk_facts PRIMARY KEY (name)
);
INSERT INTO "facts" VALUES('control_plane_id','yjf2miswatdlgxd030f8l01q');
CREATE TABLE idempotency_keys (
    user_id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    digest TEXT NOT NULL,
    run_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT pk_idempotency_keys PRIMARY KEY (user_id, "key"),
    CONSTRAINT fk_idempotency_keys_user_id FOREIGN KEY(user_id) REFERENCES users (user_id)
);
CREATE TABLE leases (
    name TEXT NOT NULL,
    holder TEXT NOT NULL,
    token BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    CONSTRAINT pk_leases PRIMARY KEY (name)
);
INSERT INTO "leases" VALUES('server/@HOST@-2252-glfu9ou3','',1,0);
INSERT INTO "leases" VALUES('shard/00','',1,0);
INSERT INTO "leases" VALUES('shard/01','',1,0);
INSERT INTO "leases" VALUES('shard/02','',1,0);
INSERT INTO "leases" VALUES('shard/03','',1,0);
INSERT INTO "leases" VALUES('shard/04','',1,0);
INSERT INTO "leases" VALUES('shard/05','',1,0);
INSERT INTO "leases" VALUES('shard/06','',1,0);
INSERT INTO "leases" VALUES('shard/07','',1,0);
INSERT INTO "leases" VALUES('shard/08','',1,0);
INSERT INTO "leases" VALUES('shard/09','',1,0);
INSERT INTO "leases" VALUES('shard/10','',1,0);
INSERT INTO "leases" VALUES('shard/11','',1,0);
INSERT INTO "leases" VALUES('shard/12','',1,0);
INSERT INTO "leases" VALUES('shard/13','',1,0);
INSERT INTO "leases" VALUES('shard/14','',1,0);
INSERT INTO "leases" VALUES('shard/15','',1,0);
INSERT INTO "leases" VALUES('scheduler','',1,0);
INSERT INTO "leases" VALUES('volumes','@HOST@-2252-glfu9ou3',1,1796108090131000);
CREATE TABLE ledger (
    entry_id INTEGER NOT NULL,
    wallet_id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    kind TEXT NOT NULL,
    amount_microusd BIGINT NOT NULL,
    run_id TEXT,
    note TEXT NOT NULL,
    time BIGINT NOT NULL,
    CONSTRAINT pk_ledger PRIMARY KEY (entry_id),
    CONSTRAINT fk_ledger_wallet_id FOREIGN KEY(wallet_id) REFERENCES wallets (wallet_id),
    CONSTRAINT uq_ledger_key UNIQUE ("key"),
    CONSTRAINT fk_ledger_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE TABLE members (
    team_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    CONSTRAINT pk_members PRIMARY KEY (team_id, user_id),
    CONSTRAINT fk_members_team_id FOREIGN KEY(team_id) REFERENCES teams (team_id),
    CONSTRAINT fk_members_user_id FOREIGN KEY(user_id) REFERENCES users (user_id)
);
CREATE TABLE operations (
    run_id TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    cluster TEXT NOT NULL,
    holder TEXT NOT NULL,
    state TEXT NOT NULL,
    recovers TEXT,
    num_tries INTEGER NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    is_retryable BOOLEAN NOT NULL,
    started_at BIGINT NOT NULL,
    finished_at BIGINT,
    CONSTRAINT pk_operations PRIMARY KEY (run_id),
    CONSTRAINT uq_operations_operation_id UNIQUE (operation_id),
    CONSTRAINT fk_operations_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO "operations" VALUES('q3ep8hx85gfpz639donl454d','unq3l9a48o4qzghx9eqkn7m0','remove',1,'local','@HOST@-2252-glfu9ou3','done',NULL,1,'','',0,1796108005646000,1796108009548000);
INSERT INTO "operations" VALUES('q5evx4dupwrxwk6pvq1k85ne','pmaomuxsja2cxkkbobrkigx9','up',1,'local','@HOST@-2252-glfu9ou3','done',NULL,1,'','',0,1796108015865000,1796108048848000);
INSERT INTO "operations" VALUES('pqhclw80wtfsn@HOST@ht70odb14','zbti6aa4hqi3r8nuyloe7ekp','up',1,'local','@HOST@-2252-glfu9ou3','done',NULL,1,'','',0,1796108053930000,1796108073861000);
INSERT INTO "operations" VALUES('jferwt5b4kg5k0b0e2dd447i','cdqmzp46wi4pxjnexish86gz','make',1,'local','@HOST@-2252-glfu9ou3','done',NULL,1,'','',0,1796108071976000,1796108075870000);
CREATE TABLE runs (
    run_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    team_id TEXT,
    name TEXT NOT NULL,
    model TEXT NOT NULL,
    environments TEXT NOT NULL,
    config_text TEXT NOT NULL,
    config_digest TEXT NOT NULL,
    plan_json TEXT NOT NULL,
    settings TEXT NOT NULL,
    secret_names TEXT NOT NULL,
    cluster TEXT,
    gpu_type TEXT,
    num_gpus INTEGER NOT NULL,
    max_steps BIGINT,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    queue_number BIGINT,
    is_adopted BOOLEAN NOT NULL,
    max_spend_microusd BIGINT,
    wish TEXT NOT NULL,
    teardown TEXT NOT NULL,
    capture TEXT NOT NULL,
    exit_details TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    deleted_at BIGINT,
    version INTEGER NOT NULL,
    is_live BOOLEAN GENERATED ALWAYS AS (
        deleted_at IS NULL AND NOT (
            state IN ('COMPLETED', 'FAILED', 'STOPPED') AND teardown = 'done'
            AND capture IN ('done', 'incomplete') AND wish <> 'DELETE'
        )
    ) STORED NOT NULL, wish_reason TEXT NOT NULL DEFAULT '',
    CONSTRAINT pk_runs PRIMARY KEY (run_id),
    CONSTRAINT fk_runs_user_id FOREIGN KEY(user_id) REFERENCES users (user_id),
    CONSTRAINT fk_runs_team_id FOREIGN KEY(team_id) REFERENCES teams (team_id)
);
INSERT INTO "runs" VALUES('q3ep8hx85gfpz639donl454d','cv0uo9g1i9hay7849msrslp8z',NULL,'quick','tests/nothing','["reverse-text"]','name = "quick"
max_steps = 100
seq_len = 2048

[model]
name = "tests/nothing"

[deployment]
num_train_gpus = 1
num_infer_gpus = 1

[trainer.optim]
lr = 5e-5

[orchestrator]
batch_size = 64

[orchestrator.train]
group_size = 8

[orchestrator.train.sampling]
max_completion_tokens = 16

[[orchestrator.train.source]]
name = "reverse-text"

[orchestrator.train.source.env.taskset]
id = "reverse-text"

[orchestrator.train.source.env.agent.harness]
id = "null"

[orchestrator.train.source.env.agent.runtime]
type = "subprocess"

# This fine-tune''s name misses the renderer map''s exact match, so select explicitly.
[orchestrator.renderer]
name = "prime-qwen3"

[inference]

# Not in the original: without it no checkpoint is written.
[ckpt]
interval = 50
','714d29f3ea7cf841bc5523e3f36a4ea2b069b685ee0f50d1236cd9497a610cd7','{
  "run_id": "q3ep8hx85gfpz639donl454d",
  "attempt": 1,
  "name": "quick",
  "config_digest": "714d29f3ea7cf841bc5523e3f36a4ea2b069b685ee0f50d1236cd9497a610cd7",
  "deployment": "single_node",
  "target": "local",
  "image_tag": "main",
  "pool": {
    "gpu_type": "CPU",
    "num_nodes": 1,
    "gpus_per_node": 2,
    "exclusive_nodes": false
  },
  "roles": [
    {
      "role": "trainer",
      "num_pods": 1,
      "gpus_per_pod": 1,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "inference",
      "num_pods": 1,
      "gpus_per_pod": 1,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "orchestrator",
      "num_pods": 1,
      "gpus_per_pod": 0,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "env",
      "num_pods": 1,
      "gpus_per_pod": 0,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "train",
      "source": "reverse-text",
      "index": 0
    }
  ],
  "model": "tests/nothing",
  "tasksets": [
    "reverse-text"
  ],
  "max_steps": 100,
  "weight_broadcast": "nccl",
  "rollout_transport": "zmq",
  "checkpoints": true,
  "price_usd_per_hour": 0.0,
  "null_harness": "in-process",
  "model_path": null,
  "volume": null,
  "ports": {
    "router": 8000,
    "router_metrics": 29000,
    "engine": 8100,
    "prefill": 8100,
    "decode": 8200,
    "side_channel": 5600,
    "data_parallel_rpc": 13345,
    "rendezvous": 29500,
    "broadcast": 29501,
    "rollouts": 5555,
    "env_servers": 5000,
    "trainer_metrics": null
  },
  "num_train_workers": 1,
  "lora": false,
  "environments": [
    "reverse-text"
  ],
  "endpoints": [],
  "unplaced": []
}','{}','[]','local','CPU',2,100,'COMPLETED','',1,1,0,NULL,'RUN','done','done',NULL,1796107961159000,1796108009621000,1796107989676704,1796107991938564,NULL,12,'');
INSERT INTO "runs" VALUES('q5evx4dupwrxwk6pvq1k85ne','cv0uo9g1i9hay7849msrslp8z',NULL,'long','tests/nothing','["reverse-text"]','name = "long"
max_steps = 100
seq_len = 2048

[model]
name = "tests/nothing"

[deployment]
num_train_gpus = 1
num_infer_gpus = 1

[trainer.optim]
lr = 5e-5

[orchestrator]
batch_size = 64

[orchestrator.train]
group_size = 8

[orchestrator.train.sampling]
max_completion_tokens = 16

[[orchestrator.train.source]]
name = "reverse-text"

[orchestrator.train.source.env.taskset]
id = "reverse-text"

[orchestrator.train.source.env.agent.harness]
id = "null"

[orchestrator.train.source.env.agent.runtime]
type = "subprocess"

# This fine-tune''s name misses the renderer map''s exact match, so select explicitly.
[orchestrator.renderer]
name = "prime-qwen3"

[inference]

# Not in the original: without it no checkpoint is written.
[ckpt]
interval = 50
','3e7d2964debf02ab4b4b18b24bd19fa39d6172fdb4cb6ed5c7e6b8f362f47ae9','{
  "run_id": "q5evx4dupwrxwk6pvq1k85ne",
  "attempt": 1,
  "name": "long",
  "config_digest": "3e7d2964debf02ab4b4b18b24bd19fa39d6172fdb4cb6ed5c7e6b8f362f47ae9",
  "deployment": "single_node",
  "target": "local",
  "image_tag": "main",
  "pool": {
    "gpu_type": "CPU",
    "num_nodes": 1,
    "gpus_per_node": 2,
    "exclusive_nodes": false
  },
  "roles": [
    {
      "role": "trainer",
      "num_pods": 1,
      "gpus_per_pod": 1,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "inference",
      "num_pods": 1,
      "gpus_per_pod": 1,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "orchestrator",
      "num_pods": 1,
      "gpus_per_pod": 0,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "env",
      "num_pods": 1,
      "gpus_per_pod": 0,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "train",
      "source": "reverse-text",
      "index": 0
    }
  ],
  "model": "tests/nothing",
  "tasksets": [
    "reverse-text"
  ],
  "max_steps": 100,
  "weight_broadcast": "nccl",
  "rollout_transport": "zmq",
  "checkpoints": true,
  "price_usd_per_hour": 0.0,
  "null_harness": "in-process",
  "model_path": null,
  "volume": null,
  "ports": {
    "router": 8000,
    "router_metrics": 29000,
    "engine": 8100,
    "prefill": 8100,
    "decode": 8200,
    "side_channel": 5600,
    "data_parallel_rpc": 13345,
    "rendezvous": 29500,
    "broadcast": 29501,
    "rollouts": 5555,
    "env_servers": 5000,
    "trainer_metrics": null
  },
  "num_train_workers": 1,
  "lora": false,
  "environments": [
    "reverse-text"
  ],
  "endpoints": [],
  "unplaced": []
}','{}','[]','local','CPU',2,100,'RUNNING','',1,2,0,NULL,'RUN','none','none',NULL,1796108009674000,1796108043825000,1796108043721963,NULL,NULL,5,'');
INSERT INTO "runs" VALUES('pqhclw80wtfsn@HOST@ht70odb14','cv0uo9g1i9hay7849msrslp8z',NULL,'long','tests/nothing','["reverse-text"]','name = "long"
max_steps = 100
seq_len = 2048

[model]
name = "tests/nothing"

[deployment]
num_train_gpus = 1
num_infer_gpus = 1

[trainer.optim]
lr = 5e-5

[orchestrator]
batch_size = 64

[orchestrator.train]
group_size = 8

[orchestrator.train.sampling]
max_completion_tokens = 16

[[orchestrator.train.source]]
name = "reverse-text"

[orchestrator.train.source.env.taskset]
id = "reverse-text"

[orchestrator.train.source.env.agent.harness]
id = "null"

[orchestrator.train.source.env.agent.runtime]
type = "subprocess"

# This fine-tune''s name misses the renderer map''s exact match, so select explicitly.
[orchestrator.renderer]
name = "prime-qwen3"

[inference]

# Not in the original: without it no checkpoint is written.
[ckpt]
interval = 50
','3e7d2964debf02ab4b4b18b24bd19fa39d6172fdb4cb6ed5c7e6b8f362f47ae9','{
  "run_id": "pqhclw80wtfsn@HOST@ht70odb14",
  "attempt": 1,
  "name": "long",
  "config_digest": "3e7d2964debf02ab4b4b18b24bd19fa39d6172fdb4cb6ed5c7e6b8f362f47ae9",
  "deployment": "single_node",
  "target": "local",
  "image_tag": "main",
  "pool": {
    "gpu_type": "CPU",
    "num_nodes": 1,
    "gpus_per_node": 2,
    "exclusive_nodes": false
  },
  "roles": [
    {
      "role": "trainer",
      "num_pods": 1,
      "gpus_per_pod": 1,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "inference",
      "num_pods": 1,
      "gpus_per_pod": 1,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "orchestrator",
      "num_pods": 1,
      "gpus_per_pod": 0,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "env",
      "num_pods": 1,
      "gpus_per_pod": 0,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "train",
      "source": "reverse-text",
      "index": 0
    }
  ],
  "model": "tests/nothing",
  "tasksets": [
    "reverse-text"
  ],
  "max_steps": 100,
  "weight_broadcast": "nccl",
  "rollout_transport": "zmq",
  "checkpoints": true,
  "price_usd_per_hour": 0.0,
  "null_harness": "in-process",
  "model_path": null,
  "volume": null,
  "ports": {
    "router": 8000,
    "router_metrics": 29000,
    "engine": 8100,
    "prefill": 8100,
    "decode": 8200,
    "side_channel": 5600,
    "data_parallel_rpc": 13345,
    "rendezvous": 29500,
    "broadcast": 29501,
    "rollouts": 5555,
    "env_servers": 5000,
    "trainer_metrics": null
  },
  "num_train_workers": 1,
  "lora": false,
  "environments": [
    "reverse-text"
  ],
  "endpoints": [],
  "unplaced": []
}','{}','[]','local','CPU',2,100,'RUNNING','',1,3,0,NULL,'RUN','none','none',NULL,1796108044255000,1796108071896000,1796108071063227,NULL,NULL,6,'');
INSERT INTO "runs" VALUES('jferwt5b4kg5k0b0e2dd447i','cv0uo9g1i9hay7849msrslp8z',NULL,'quick','tests/nothing','["reverse-text"]','name = "quick"
max_steps = 100
seq_len = 2048

[model]
name = "tests/nothing"

[deployment]
num_train_gpus = 1
num_infer_gpus = 1

[trainer.optim]
lr = 5e-5

[orchestrator]
batch_size = 64

[orchestrator.train]
group_size = 8

[orchestrator.train.sampling]
max_completion_tokens = 16

[[orchestrator.train.source]]
name = "reverse-text"

[orchestrator.train.source.env.taskset]
id = "reverse-text"

[orchestrator.train.source.env.agent.harness]
id = "null"

[orchestrator.train.source.env.agent.runtime]
type = "subprocess"

# This fine-tune''s name misses the renderer map''s exact match, so select explicitly.
[orchestrator.renderer]
name = "prime-qwen3"

[inference]

# Not in the original: without it no checkpoint is written.
[ckpt]
interval = 50
','714d29f3ea7cf841bc5523e3f36a4ea2b069b685ee0f50d1236cd9497a610cd7','{
  "run_id": "jferwt5b4kg5k0b0e2dd447i",
  "attempt": 1,
  "name": "quick",
  "config_digest": "714d29f3ea7cf841bc5523e3f36a4ea2b069b685ee0f50d1236cd9497a610cd7",
  "deployment": "single_node",
  "target": "local",
  "image_tag": "main",
  "pool": {
    "gpu_type": "CPU",
    "num_nodes": 1,
    "gpus_per_node": 2,
    "exclusive_nodes": false
  },
  "roles": [
    {
      "role": "trainer",
      "num_pods": 1,
      "gpus_per_pod": 1,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "inference",
      "num_pods": 1,
      "gpus_per_pod": 1,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "orchestrator",
      "num_pods": 1,
      "gpus_per_pod": 0,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "",
      "source": "",
      "index": 0
    },
    {
      "role": "env",
      "num_pods": 1,
      "gpus_per_pod": 0,
      "tensor_parallel": 1,
      "data_parallel": 1,
      "part": "",
      "pods_per_replica": 1,
      "pods_per_group": 1,
      "expert_parallel": false,
      "policy": "",
      "split": "train",
      "source": "reverse-text",
      "index": 0
    }
  ],
  "model": "tests/nothing",
  "tasksets": [
    "reverse-text"
  ],
  "max_steps": 100,
  "weight_broadcast": "nccl",
  "rollout_transport": "zmq",
  "checkpoints": true,
  "price_usd_per_hour": 0.0,
  "null_harness": "in-process",
  "model_path": null,
  "volume": null,
  "ports": {
    "router": 8000,
    "router_metrics": 29000,
    "engine": 8100,
    "prefill": 8100,
    "decode": 8200,
    "side_channel": 5600,
    "data_parallel_rpc": 13345,
    "rendezvous": 29500,
    "broadcast": 29501,
    "rollouts": 5555,
    "env_servers": 5000,
    "trainer_metrics": null
  },
  "num_train_workers": 1,
  "lora": false,
  "environments": [
    "reverse-text"
  ],
  "endpoints": [],
  "unplaced": []
}','{}','[]',NULL,NULL,2,100,'QUEUED','needs 2 GPUs: 0 of 4 CPU are free on local',1,4,0,NULL,'RUN','none','none',NULL,1796108071956000,1796108072885000,NULL,NULL,NULL,2,'');
CREATE TABLE stack_files (
    stack TEXT NOT NULL,
    text TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT pk_stack_files PRIMARY KEY (stack)
);
INSERT INTO "stack_files" VALUES('q5evx4dupwrxwk6pvq1k85ne','encryptionsalt: v1:lg3Eg9eTlh8=:v1:qoTJgpfprLMgYYus:bSr29VJWLFHY/8zSPAKh4SIf+gJoKw==
config:
  paddock:kind: run
  paddock:attempt: 1
  paddock:configText: ''name = "long"

    max_steps = 100

    seq_len = 2048


    [model]

    name = "tests/nothing"


    [deployment]

    num_train_gpus = 1

    num_infer_gpus = 1


    [trainer.optim]

    lr = 5e-5


    [orchestrator]

    batch_size = 64


    [orchestrator.train]

    group_size = 8


    [orchestrator.train.sampling]

    max_completion_tokens = 16


    [[orchestrator.train.source]]

    name = "reverse-text"


    [orchestrator.train.source.env.taskset]

    id = "reverse-text"


    [orchestrator.train.source.env.agent.harness]

    id = "null"


    [orchestrator.train.source.env.agent.runtime]

    type = "subprocess"


    # This fine-tune''''s name misses the renderer map''''s exact match, so select explicitly.

    [orchestrator.renderer]

    name = "prime-qwen3"


    [inference]


    # Not in the original: without it no checkpoint is written.

    [ckpt]

    interval = 50

    ''
  paddock:cluster: local
  paddock:controlPlane: yjf2miswatdlgxd030f8l01q
',1796108048032000);
INSERT INTO "stack_files" VALUES('pqhclw80wtfsn@HOST@ht70odb14','encryptionsalt: v1:IH/mDbABtw4=:v1:FCe+bll2SZ+Aa3tF:Nu7V3+CMhynBwlUJQ2m7/RpXFaneiA==
config:
  paddock:kind: run
  paddock:attempt: 1
  paddock:configText: ''name = "long"

    max_steps = 100

    seq_len = 2048


    [model]

    name = "tests/nothing"


    [deployment]

    num_train_gpus = 1

    num_infer_gpus = 1


    [trainer.optim]

    lr = 5e-5


    [orchestrator]

    batch_size = 64


    [orchestrator.train]

    group_size = 8


    [orchestrator.train.sampling]

    max_completion_tokens = 16


    [[orchestrator.train.source]]

    name = "reverse-text"


    [orchestrator.train.source.env.taskset]

    id = "reverse-text"


    [orchestrator.train.source.env.agent.harness]

    id = "null"


    [orchestrator.train.source.env.agent.runtime]

    type = "subprocess"


    # This fine-tune''''s name misses the renderer map''''s exact match, so select explicitly.

    [orchestrator.renderer]

    name = "prime-qwen3"


    [inference]


    # Not in the original: without it no checkpoint is written.

    [ckpt]

    interval = 50

    ''
  paddock:cluster: local
  paddock:controlPlane: yjf2miswatdlgxd030f8l01q
',1796108073017000);
INSERT INTO "stack_files" VALUES('jferwt5b4kg5k0b0e2dd447i','encryptionsalt: v1:xTVpRXfjGWs=:v1:0lS8CNPMYmOXEaye:CVdpMwk4F8S+T3AVNI3yTLt4yQG5Vw==
config:
  paddock:kind: run
  paddock:attempt: 1
  paddock:configText: ''name = "quick"

    max_steps = 100

    seq_len = 2048


    [model]

    name = "tests/nothing"


    [deployment]

    num_train_gpus = 1

    num_infer_gpus = 1


    [trainer.optim]

    lr = 5e-5


    [orchestrator]

    batch_size = 64


    [orchestrator.train]

    group_size = 8


    [orchestrator.train.sampling]

    max_completion_tokens = 16


    [[orchestrator.train.source]]

    name = "reverse-text"


    [orchestrator.train.source.env.taskset]

    id = "reverse-text"


    [orchestrator.train.source.env.agent.harness]

    id = "null"


    [orchestrator.train.source.env.agent.runtime]

    type = "subprocess"


    # This fine-tune''''s name misses the renderer map''''s exact match, so select explicitly.

    [orchestrator.renderer]

    name = "prime-qwen3"


    [inference]


    # Not in the original: without it no checkpoint is written.

    [ckpt]

    interval = 50

    ''
  paddock:cluster: local
  paddock:controlPlane: yjf2miswatdlgxd030f8l01q
',1796108075769000);
CREATE TABLE teams (
    team_id TEXT NOT NULL,
    name TEXT NOT NULL,
    slug TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT pk_teams PRIMARY KEY (team_id),
    CONSTRAINT uq_teams_slug UNIQUE (slug)
);
CREATE TABLE usage_intervals (
    run_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    source TEXT NOT NULL,
    gpu_type TEXT NOT NULL,
    num_gpus INTEGER NOT NULL,
    price_microusd_per_gpu_hour BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    CONSTRAINT pk_usage_intervals PRIMARY KEY (run_id, attempt, source),
    CONSTRAINT fk_usage_intervals_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO "usage_intervals" VALUES('q3ep8hx85gfpz639donl454d',1,'slots','CPU',2,0,1796107986342340,1796107991938564);
INSERT INTO "usage_intervals" VALUES('q5evx4dupwrxwk6pvq1k85ne',1,'slots','CPU',2,0,1796108039521880,NULL);
INSERT INTO "usage_intervals" VALUES('pqhclw80wtfsn@HOST@ht70odb14',1,'slots','CPU',2,0,1796108067708434,NULL);
CREATE TABLE users (
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    email TEXT NOT NULL,
    is_admin BOOLEAN NOT NULL,
    slug TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT pk_users PRIMARY KEY (user_id),
    CONSTRAINT uq_users_email UNIQUE (email),
    CONSTRAINT uq_users_slug UNIQUE (slug)
);
INSERT INTO "users" VALUES('cv0uo9g1i9hay7849msrslp8z','ada','ada@example.com',0,'ada',1796107948878000);
CREATE TABLE volumes (
    volume_id TEXT NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    user_id TEXT NOT NULL,
    team_id TEXT,
    size TEXT NOT NULL,
    cluster TEXT NOT NULL,
    claim_name TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT pk_volumes PRIMARY KEY (volume_id),
    CONSTRAINT uq_volumes_owner_name UNIQUE (owner, name),
    CONSTRAINT fk_volumes_user_id FOREIGN KEY(user_id) REFERENCES users (user_id),
    CONSTRAINT fk_volumes_team_id FOREIGN KEY(team_id) REFERENCES teams (team_id)
);
CREATE TABLE wallets (
    wallet_id TEXT NOT NULL,
    balance_microusd BIGINT NOT NULL,
    is_on_demand_enabled BOOLEAN NOT NULL,
    max_gpus_per_run BIGINT,
    CONSTRAINT pk_wallets PRIMARY KEY (wallet_id)
);
CREATE INDEX ix_api_keys_user_id ON api_keys (user_id);
CREATE INDEX ix_members_user_id ON members (user_id);
CREATE INDEX ix_runs_listed
    ON runs (deleted_at, created_at, run_id, user_id, team_id, state, cluster);
CREATE INDEX ix_runs_is_live_created_at ON runs (is_live, created_at);
CREATE INDEX ix_runs_state_queue_number ON runs (state, queue_number);
CREATE INDEX ix_runs_team_id_deleted_at_created_at_run_id
    ON runs (team_id, deleted_at, created_at, run_id);
CREATE INDEX ix_runs_user_id_deleted_at_created_at_run_id
    ON runs (user_id, deleted_at, created_at, run_id);
CREATE INDEX ix_events_run_id_event_id ON events (run_id, event_id);
CREATE INDEX ix_ledger_run_id ON ledger (run_id);
CREATE INDEX ix_ledger_wallet_id_entry_id ON ledger (wallet_id, entry_id);
CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events is append-only'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events is append-only'); END;
CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'ledger is append-only'); END;
CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'ledger is append-only'); END;
CREATE INDEX ix_ledger_wallet_id_kind_entry_id ON ledger (wallet_id, kind, entry_id);
COMMIT;
