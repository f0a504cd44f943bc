"""The policy pack: hands the engine's resources to the rules and reports what they yield.

Run with `pulumi preview --policy-pack policies`. The only module that imports pulumi_policy; what
is judged, and how, stands in `policies.rules`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyPack,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError  # raised by reading an unknown property

from policies.manifests import UNKNOWN
from policies.rules import RESOURCE_RULES, STACK_RULES, ResourceRule, StackRule, Subject

PACK_NAME = "paddock"


def main() -> None:
    """Serve the pack to the engine until it hangs up."""
    PolicyPack(
        PACK_NAME,
        [
            *(_resource_policy(rule) for rule in RESOURCE_RULES),
            *(_stack_policy(rule) for rule in STACK_RULES),
        ],
        EnforcementLevel.MANDATORY,
    )


def _resource_policy(rule: ResourceRule) -> Policy:
    def validate(args: ResourceValidationArgs, report_violation: ReportViolation) -> None:
        for message in rule.judge(_subject(args), args.get_config()):
            report_violation(message, None)

    schema = PolicyConfigSchema(rule.config_schema) if rule.config_schema else None
    return ResourceValidationPolicy(
        rule.name, rule.description, validate=validate, config_schema=schema
    )


def _stack_policy(rule: StackRule) -> Policy:
    def validate(args: StackValidationArgs, report_violation: ReportViolation) -> None:
        subjects = [_subject(resource) for resource in args.resources]
        for message, urn in rule.judge(subjects):
            report_violation(message, urn)

    return StackValidationPolicy(rule.name, rule.description, validate=validate)


def _subject(resource: ResourceValidationArgs | PolicyResource) -> Subject:
    depends_on = resource.dependencies if isinstance(resource, PolicyResource) else []
    return Subject(
        urn=resource.urn,
        type=resource.resource_type,
        stack=resource.urn.removeprefix("urn:pulumi:").split("::")[0],
        props=_plain(resource.props),
        is_protected=resource.opts.protect,
        depends_on=frozenset(other.urn for other in depends_on),
    )


def _plain(value: Any) -> Any:  # noqa: ANN401 - a JSON value behind the pack's checking proxies
    if isinstance(value, Mapping):
        return {key: _read(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_read(value, index) for index in range(len(value))]
    return value


def _read(container: Any, key: Any) -> Any:  # noqa: ANN401 - a mapping or a list, and its key
    try:
        return _plain(container[key])
    except UnknownValueError:
        return UNKNOWN


if __name__ == "__main__":
    main()
