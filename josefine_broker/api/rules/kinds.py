"""The common kinds of access steps: a request refused as a whole or item by item, an answer without
the items that its client may not see.
"""

from dataclasses import replace
from operator import attrgetter
from typing import Any

from josefine_broker.api.rules.asker import After, Asker, Refuse, Step
from josefine_broker.base.acls import CLUSTER_NAME, Operation, ResourceType

NOT_ASKED = -(2**31)
"""The value of an authorized-operations field that was not requested (KIP-430)."""


def cluster(operation: Operation) -> Step:
    """An operation on the whole cluster."""
    return whole(operation, ResourceType.CLUSTER)


def whole(operation: Operation, kind: ResourceType, field: str = "") -> Step:
    """The request is about one resource, named by `field`."""
    name_of = attrgetter(field) if field else lambda _: CLUSTER_NAME

    def step(asker: Asker, request: Any, refuse: Refuse) -> tuple[Any, After | None]:
        if not asker.may(operation, kind, name_of(request)):
            raise asker.denied(operation, kind)
        return request, None

    return step


def each(
    operation: Operation, kind: ResourceType, items: str, answers: str, name: str = ""
) -> Step:
    """Each of `items` is about a resource, named by its field `name`, or is the name itself;
    refusals are added to the answer's `answers`."""
    name_of = attrgetter(name) if name else str

    def step(asker: Asker, request: Any, refuse: Refuse) -> tuple[Any, After | None]:
        wanted = getattr(request, items)
        flags = [asker.may(operation, kind, name_of(item)) for item in wanted]
        if all(flags):
            return request, None
        return split(asker, request, refuse, flags, items, answers, operation, kind)

    return step


def each_topic(operation: Operation, items: str, answers: str) -> Step:
    """Like `each`, for topics by name or by id."""

    def step(asker: Asker, request: Any, refuse: Refuse) -> tuple[Any, After | None]:
        flags = [asker.may_topic(operation, item) for item in getattr(request, items)]
        if all(flags):
            return request, None
        kind = ResourceType.TOPIC
        return split(asker, request, refuse, flags, items, answers, operation, kind)

    return step


def split(
    asker: Asker,
    request: Any,
    refuse: Refuse,
    flags: list[bool],
    items: str,
    answers: str,
    operation: Operation,
    kind: ResourceType,
) -> tuple[Any, After | None]:
    """The items whose flag is set. Raises KafkaError if none is."""
    if all(flags):
        return request, None
    error = asker.denied(operation, kind)
    if not any(flags):
        raise error
    allowed, denied = parted(request, items, flags)
    return allowed, joining(answers, refuse(denied, error))


def parted(request: Any, items: str, flags: list[bool]) -> tuple[Any, Any]:
    """The request with the items whose flag is set, and with the others."""
    both = list(zip(getattr(request, items), flags, strict=True))
    yes = tuple(item for item, flag in both if flag)
    no = tuple(item for item, flag in both if not flag)
    return replace(request, **{items: yes}), replace(request, **{items: no})


def joining(answers: str, refused: Any) -> After:
    """Adds the refused items after the others."""

    def after(answer: Any) -> Any:
        both = (*getattr(answer, answers), *getattr(refused, answers))
        return replace(answer, **{answers: both})

    return after


def seen(operation: Operation, kind: ResourceType, answers: str, name: str) -> Step:
    """The answer without items its client may not see; a right on the cluster shows all."""
    name_of = attrgetter(name)

    def step(asker: Asker, request: Any, refuse: Refuse) -> tuple[Any, After | None]:
        if kind is ResourceType.GROUP and asker.may_cluster(operation):
            return request, None

        def after(answer: Any) -> Any:
            found = getattr(answer, answers)
            left = tuple(each for each in found if asker.may(operation, kind, name_of(each)))
            return replace(answer, **{answers: left})

        return request, after

    return step


def with_operations(kind: ResourceType, answers: str, name: str, field: str) -> Step:
    """The answer lists the operations that this client may do, if requested."""
    name_of, told = attrgetter(name), attrgetter(field)

    def step(asker: Asker, request: Any, refuse: Refuse) -> tuple[Any, After | None]:
        def after(answer: Any) -> Any:
            found = tuple(
                each
                if told(each) == NOT_ASKED or each.error_code
                else replace(each, **{field: asker.operations(kind, name_of(each))})
                for each in getattr(answer, answers)
            )
            return replace(answer, **{answers: found})

        return request, after

    return step
