"""A dispatcher on a real store, with clusters that are values and an operator that only notes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runtime.cluster import ClusterProfile, GpuOffer, LocalConnection
from runtime.control.dispatcher import RunDispatcher
from runtime.control.model_lists import ModelLists
from runtime.control.operations import Operation, OperationBusyError, OperationReport
from runtime.control.requests import CreateRun
from runtime.control.store import users, wallets
from runtime.control.store.store import Store
from runtime.control.values import EntryKind, User, wallet_id_of
from runtime.local_state import create_state
from runtime.models import add_model

MODEL = "tests/nothing"


@dataclass(kw_only=True)
class NotedOperations:
    """Takes operations and performs none."""

    started: list[Operation] = field(default_factory=list)
    is_closing: bool = False

    def start(self, operation: Operation) -> None:
        """Note an operation."""
        if self.is_closing:
            raise OperationBusyError("this server takes no more operations")
        self.started.append(operation)

    def state(self, run_id: str) -> OperationReport | None:
        """Know nothing."""
        return None

    def interrupt(self, run_id: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@dataclass(kw_only=True)
class GivenClusters:
    """Clusters that a test names."""

    found: dict[str, ClusterProfile] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    models: ModelLists = field(default_factory=ModelLists)
    shared: dict[str, bool] = field(default_factory=dict)

    def profiles(self) -> Mapping[str, ClusterProfile]:
        """Return them."""
        return self.found

    def volume_path(self, cluster: str, volume: str) -> Path | None:
        """Return the folder that the test gave."""
        return self.paths.get(volume)

    def is_shared(self, volume: str) -> bool | None:
        """Return what the test said."""
        return self.shared.get(volume)


@dataclass(kw_only=True)
class Dispatching:
    """A dispatcher, its surroundings, and a user."""

    store: Store
    folder: Path
    operator: NotedOperations = field(default_factory=NotedOperations)
    clusters: GivenClusters = field(default_factory=GivenClusters)

    def __post_init__(self) -> None:
        self.dispatcher = RunDispatcher(
            store=self.store, clusters=self.clusters, operator=self.operator, holder="test-server"
        )
        model = self.folder / "model"
        model.mkdir()
        (model / "config.json").write_text("{}")
        add_model(MODEL, model, str(self.folder / "cache"))

    def user(self, name: str = "ada") -> User:
        """Make a user."""
        with self.store.write() as tx:
            return users.add_user(tx, name=name, email=f"{name}@example.com")

    def credit(self, user: User, microusd: int) -> None:
        """Put money into a user's wallet."""
        wallet_id = wallet_id_of(user.user_id, None)
        movement = wallets.Movement(
            wallet_id=wallet_id, key="k", kind=EntryKind.CREDIT, amount_microusd=microusd
        )
        with self.store.write() as tx:
            wallets.post(tx, movement)

    def add_cluster(self, name: str, *, slots: int = 4, price: float = 0.0) -> ClusterProfile:
        """Add a local cluster."""
        state = self.folder / "clusters" / name
        create_state(state, devices=("",) * slots)
        offer = GpuOffer(name="CPU", num_nodes=1, gpus_per_node=slots, price_usd_per_hour=price)
        connection = LocalConnection(state_path=str(state), cache_path=str(self.folder / "cache"))
        profile = ClusterProfile(
            name=name, gpus=(offer,), connection=connection, runs_path=str(self.folder / "runs")
        )
        self.clusters.found[name] = profile
        return profile


def request(text: str, **fields: object) -> CreateRun:
    """Return a request of a config."""
    return CreateRun(config_text=text, **fields)  # type: ignore[arg-type] # as the fields are


def config(*, model: str = MODEL, train: int = 1) -> str:
    """Return the demo's config."""
    text = (Path(__file__).parents[4] / "examples" / "demo.toml").read_text()
    for old, new in {
        'name = "paddock/tiny-reverse-text"': f'name = "{model}"',
        "num_train_gpus = 1": f"num_train_gpus = {train}",
    }.items():
        assert old in text
        text = text.replace(old, new)
    return text
