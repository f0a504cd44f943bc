"""A policy pack of one rule, which denies everything when the environment says so."""

import os

from pulumi_policy import (
    EnforcementLevel,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)


def deny_when_asked(args: ResourceValidationArgs, report_violation: ReportViolation) -> None:
    """Report a violation for every resource."""
    if os.environ.get("POLICY_DENIES"):
        report_violation("denied by the rule", None)


PolicyPack(
    "small-policies",
    [
        ResourceValidationPolicy(
            name="deny-when-asked",
            description="a rule to see fail",
            enforcement_level=EnforcementLevel.MANDATORY,
            validate=deny_when_asked,
        )
    ],
)
