"""AlterUserScramCredentials (key 51, KIP-554): sets and removes SCRAM credentials in the metadata.

A client sends the salted password; the stored keys verify a proof and cannot create one. A user
gets all of its changes or none; one change of the metadata carries those of all valid users.
"""

from collections import Counter

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    NUMBERS,
    digest_bytes,
    of_salted,
)
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.changes import AlterCredentials, UserCredential
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import alter_user_scram_credentials as e

NAME_CHARS_MAX = 249
SALT_BYTES = range(1, 1_025)
MECHANISMS = {number: name for name, number in NUMBERS.items()}


def handle(ctx: Context, info: RequestInfo, request: e.AlterUserScramCredentialsRequest) -> object:
    """Answered when the changes are in effect here; errors are per user."""
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    errors: dict[str, KafkaError | None] = dict.fromkeys(_users(request))
    times = Counter((each.name, each.mechanism) for each in _wishes(request))
    found: list[UserCredential] = []
    gone: list[tuple[str, str]] = []
    for wanted in _wishes(request):
        try:
            if times[wanted.name, wanted.mechanism] > 1:
                raise KafkaError(
                    ErrorCode.duplicate_resource,
                    f"a mechanism of user '{wanted.name}' is named more than once",
                )
            if isinstance(wanted, e.ScramCredentialDeletion):
                gone.append(_deletion(ctx, wanted))
            else:
                found.append(_upsertion(wanted))
        except KafkaError as error:
            errors[wanted.name] = errors[wanted.name] or error  # the first error, as in Kafka
    change = AlterCredentials(
        put=tuple(each for each in found if errors[each.user] is None),
        remove=tuple(each for each in gone if errors[each[0]] is None),
    )
    is_empty = not (change.put or change.remove)
    proposals = [] if is_empty else [submit_change(ctx, change, deadline_ms)]

    def build() -> e.AlterUserScramCredentialsResponse:
        failed = next((each.error for each in proposals if each.error is not None), None)
        return _answer({user: error or failed for user, error in errors.items()})

    return answer_when_settled(ctx, proposals, deadline_ms, build)


def refuse(
    request: e.AlterUserScramCredentialsRequest, error: KafkaError
) -> e.AlterUserScramCredentialsResponse:
    """The answer when the whole request is refused."""
    return _answer(dict.fromkeys(_users(request), error))


def _wishes(
    request: e.AlterUserScramCredentialsRequest,
) -> list[e.ScramCredentialDeletion | e.ScramCredentialUpsertion]:
    return [*request.deletions, *request.upsertions]


def _users(request: e.AlterUserScramCredentialsRequest) -> dict[str, None]:
    """The users in the order of the request."""
    return dict.fromkeys(each.name for each in _wishes(request))


def _mechanism(user: str, number: int) -> str:
    """Raises KafkaError. Like Kafka, checks the user's name before the mechanism."""
    if not user:
        raise _unacceptable("the name of a user is empty")
    name = MECHANISMS.get(number)
    if name is None:
        raise KafkaError(
            ErrorCode.unsupported_sasl_mechanism, f"there is no mechanism of SCRAM {number}"
        )
    return name


def _deletion(ctx: Context, wanted: e.ScramCredentialDeletion) -> tuple[str, str]:
    key = (wanted.name, _mechanism(wanted.name, wanted.mechanism))
    if key not in ctx.image.credentials:
        raise KafkaError(
            ErrorCode.resource_not_found, f"user '{wanted.name}' has no credential of {key[1]}"
        )
    return key


def _upsertion(wanted: e.ScramCredentialUpsertion) -> UserCredential:
    mechanism = _mechanism(wanted.name, wanted.mechanism)
    if len(wanted.name) > NAME_CHARS_MAX:
        raise _unacceptable(f"the name of a user has {NAME_CHARS_MAX} characters at most")
    if not ITERATIONS_MIN <= wanted.iterations <= ITERATIONS_MAX:
        raise _unacceptable(
            f"iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}, not {wanted.iterations}"
        )
    if len(wanted.salt) not in SALT_BYTES:
        raise _unacceptable(f"a salt has 1 to {SALT_BYTES[-1]} bytes")
    if len(wanted.salted_password) != digest_bytes(mechanism):
        raise _unacceptable(f"a salted password of {mechanism} has {digest_bytes(mechanism)} bytes")
    credential = of_salted(
        mechanism, bytes(wanted.salted_password), bytes(wanted.salt), wanted.iterations
    )
    return UserCredential(wanted.name, mechanism, credential)


def _unacceptable(message: str) -> KafkaError:
    return KafkaError(ErrorCode.unacceptable_credential, message)


def _answer(errors: dict[str, KafkaError | None]) -> e.AlterUserScramCredentialsResponse:
    return e.AlterUserScramCredentialsResponse(
        results=tuple(
            e.AlterUserScramCredentialsResult(user=user)
            if error is None
            else e.AlterUserScramCredentialsResult(
                user=user, error_code=error.code, error_message=error.message or None
            )
            for user, error in errors.items()
        )
    )
