"""The user on the wire, and the user's feedback."""

from typing import Annotated

from pydantic import Field

from runtime.control.readings import Identity
from runtime.control.requests import FeedbackNote
from runtime.control.wire.model import Request, SnakeAnswer, Text
from runtime.control.wire.texts import sound, without_markup


class TeamView(SnakeAnswer):
    """A team of the user; paddock's own."""

    id: str
    name: str
    slug: str


class UserView(SnakeAnswer):
    """The user, in the words of `prime whoami`; the last two fields are paddock's own."""

    id: str
    name: str
    email: str
    slug: str
    teams: tuple[TeamView, ...] = ()
    balance_microusd: int


class UserAnswer(SnakeAnswer):
    """Who asks."""

    data: UserView

    @classmethod
    def of(cls, identity: Identity, *, balance_microusd: int) -> "UserAnswer":
        """Return the answer."""
        user = identity.user
        return cls(
            data=UserView(
                id=user.user_id,
                name=without_markup(user.name),
                email=without_markup(user.email),
                slug=without_markup(user.slug),
                teams=tuple(
                    TeamView(id=team.team_id, name=without_markup(team.name), slug=team.slug)
                    for team in identity.teams
                ),
                balance_microusd=balance_microusd,
            )
        )


class FeedbackBody(Request):
    """What `prime train request` sends, in snake_case."""

    message: Annotated[str, Field(min_length=1, max_length=16_384)]
    category: Text = "general"
    cli_version: Annotated[Text | None, Field(alias="cli_version")] = None
    run_id: Annotated[Text | None, Field(alias="run_id")] = None

    def to_note(self) -> FeedbackNote:
        """Return the note."""
        message = sound(self.message).replace("\0", "")  # no database takes a NUL
        return FeedbackNote(message=message, category=self.category, run_id=self.run_id)
