"""The file servers of a cluster stack and of a volume stack: their mounts, and who finds them."""

from infra.k8s.adopted import AdoptedStack
from infra.k8s.files_server import files_server, volume_files_server
from tests.infra.k8s.adopting import adopted_stack
from tests.infra.k8s.test_cluster_objects import everything


def test_the_file_server_mounts_every_volume_read_only() -> None:
    config_map, deployment = files_server(everything())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    claims = [one["persistentVolumeClaim"]["claimName"] for one in pod["volumes"][2:]]
    roots = [mount for mount in container["volumeMounts"] if mount["name"].startswith("volume-")]

    assert claims == ["paddock-runs", "volume-a"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert container["args"][-4:] == ["--root", "/volumes/volume-0", "--root", "/volumes/volume-1"]
    assert [mount["mountPath"] for mount in roots] == ["/volumes/volume-0", "/volumes/volume-1"]
    assert config_map["data"]["files.py"].startswith('"""The file server of a cluster')
    assert pod["volumes"][0]["configMap"]["name"] == config_map["metadata"]["name"]
    assert "nvidia.com/gpu" not in str(container["resources"])


def test_a_volume_has_a_file_server_like_the_clusters_for_its_claim_alone() -> None:
    stack = everything()
    again = AdoptedStack.of_profile(stack.profile)
    config_map, deployment = volume_files_server(again, "shelf", "their-claim")
    pod = deployment["spec"]["template"]["spec"]
    own = files_server(stack)[1]["spec"]["template"]["spec"]

    same = ("affinity", "tolerations", "imagePullSecrets", "securityContext")
    assert {key: pod.get(key) for key in same} == {key: own.get(key) for key in same}
    assert pod["containers"][0]["image"] == own["containers"][0]["image"]
    claims = [one["persistentVolumeClaim"]["claimName"] for one in pod["volumes"][2:]]
    assert claims == ["their-claim"]
    assert deployment["metadata"]["name"] == "paddock-files-shelf"
    assert config_map["metadata"]["name"].startswith("paddock-files-shelf-")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert stack.kubernetes.files is not None
    assert stack.kubernetes.files.selector.items() <= labels.items()
    assert labels["paddock.dev/volume"] == "shelf"
    assert deployment["spec"]["selector"]["matchLabels"] == labels


def test_a_changed_program_is_a_new_config_map() -> None:
    name = files_server(adopted_stack())[0]["metadata"]["name"]

    assert name.startswith("paddock-files-")
    assert len(name) == len("paddock-files-") + 8


def test_the_pods_of_the_file_server_are_those_that_the_profile_names() -> None:
    stack = everything()
    labels = files_server(stack)[1]["spec"]["template"]["metadata"]["labels"]
    files = stack.kubernetes.files
    assert files is not None

    assert files.selector.items() <= labels.items()
