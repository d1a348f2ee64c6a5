"""DescribeUserScramCredentials (key 50, KIP-554): the SCRAM mechanisms of users in the metadata.
Users in a broker's own file are not included."""

from collections import Counter

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.scram import NUMBERS
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import describe_user_scram_credentials as e


def handle(
    ctx: Context, info: RequestInfo, request: e.DescribeUserScramCredentialsRequest
) -> e.DescribeUserScramCredentialsResponse:
    """Errors are per user."""
    known: dict[str, list[e.CredentialInfo]] = {}
    for (user, mechanism), credential in sorted(ctx.image.credentials.items()):
        told = e.CredentialInfo(mechanism=NUMBERS[mechanism], iterations=credential.iterations)
        known.setdefault(user, []).append(told)
    times = Counter(each.name for each in request.users or ()) or dict.fromkeys(known, 1)
    return e.DescribeUserScramCredentialsResponse(
        results=tuple(_result(user, count, known.get(user)) for user, count in times.items())
    )


def refuse(
    request: e.DescribeUserScramCredentialsRequest, error: KafkaError
) -> e.DescribeUserScramCredentialsResponse:
    """The answer when the whole request is refused: an error for each requested user.

    Kafka also sets the error of the whole, on which librdkafka 2.16 sometimes crashes with a
    segmentation fault; so it is set only where no named user can carry it."""
    message = error.message or None
    if not request.users:
        return e.DescribeUserScramCredentialsResponse(
            error_code=error.code, error_message=message, results=()
        )
    return e.DescribeUserScramCredentialsResponse(
        results=tuple(
            e.DescribeUserScramCredentialsResult(
                user=each.name, error_code=error.code, error_message=message
            )
            for each in request.users
        )
    )


def _result(
    user: str, times: int, found: list[e.CredentialInfo] | None
) -> e.DescribeUserScramCredentialsResult:
    if times > 1:
        return e.DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.duplicate_resource,
            error_message=f"user '{user}' is named more than once",
        )
    if found is None:
        return e.DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.resource_not_found,
            error_message=f"there are no credentials of user '{user}'",
        )
    return e.DescribeUserScramCredentialsResult(user=user, credential_infos=tuple(found))
