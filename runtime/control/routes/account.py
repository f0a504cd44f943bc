"""The user: who asks, and the feedback of `prime train request`."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from runtime.control.auth import CallerDep, KeyedRoute, ServicesDep, limit_notes
from runtime.control.wire.account import FeedbackBody, UserAnswer
from runtime.control.wire.model import Empty, Text

router = APIRouter(tags=["account"], route_class=KeyedRoute)


@router.get("/user/whoami")
def whoami(
    caller: CallerDep,
    services: ServicesDep,
    team_id: Annotated[Text | None, Query(alias="teamId")] = None,
) -> UserAnswer:
    """Say whom the API key stands for, and what is in the wallet that pays for it."""
    payer = caller.team_for(team_id)
    balance = services.accounts.balance_microusd(caller.user.user_id, payer)
    return UserAnswer.of(caller.identity, balance_microusd=balance)


@router.post("/feedback", dependencies=[Depends(limit_notes)])
def feedback(body: FeedbackBody, caller: CallerDep, services: ServicesDep) -> Empty:
    """Keep a note for the operators."""
    services.feedback.add(caller.user, body.to_note())
    return Empty()
