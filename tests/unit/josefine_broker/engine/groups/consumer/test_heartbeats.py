"""The consumer protocol, heartbeat by heartbeat: who gets what when, who is fenced, who is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.subscriptions import names_read
from josefine_broker.engine.groups.consumer.values import Beat
from tests.unit.josefine_broker.engine.groups.consumer.lab import REBALANCE_MS, SESSION_MS, Lab


def refused(lab: Lab, code: ErrorCode, beat: Beat) -> None:
    with pytest.raises(KafkaError) as caught:
        lab.beat(beat)
    assert caught.value.code is code


def two_members() -> Lab:
    """`a` had all four partitions, and `b` has come."""
    lab = Lab(t=4)
    lab.join("a")
    lab.join("b")
    return lab


def shared() -> Lab:
    """`a` and `b` have two partitions each, in epoch 2."""
    lab = two_members()
    kept = lab.say("a", 1).parts
    lab.say("a", 1, kept)
    lab.say("b", 2)
    assert lab.state == "Stable"
    return lab


def test_the_first_member_gets_everything_at_once() -> None:
    lab = Lab(t=3)

    answer = lab.join("a")

    assert (answer.epoch, answer.parts) == (1, lab.every("t"))
    assert lab.state == "Stable"


def test_a_newcomer_waits_until_what_it_is_to_have_was_given_up() -> None:
    lab = Lab(t=4)
    lab.join("a")

    newcomer = lab.join("b")

    assert (newcomer.epoch, newcomer.parts) == (2, frozenset())
    assert lab.state == "Reconciling"
    told = lab.say("a", 1)
    assert told.epoch == 1, "it stays in its epoch while it has what it is to lose"
    assert told.parts is not None
    assert len(told.parts) == 2
    assert lab.say("b", 2).parts is None, "nobody said yet that it gave something up"


def test_what_was_given_up_goes_to_who_waits_for_it() -> None:
    lab = two_members()
    kept = lab.say("a", 1).parts
    assert kept is not None

    confirmed = lab.say("a", 1, kept)

    assert confirmed.epoch == 2
    assert lab.say("b", 2).parts == lab.every("t") - kept
    assert lab.state == "Stable"


def test_one_that_still_has_it_keeps_it() -> None:
    lab = two_members()
    lab.say("a", 1)

    lab.say("a", 1, lab.every("t"))

    assert lab.say("b", 2).parts is None
    assert lab.member("a").epoch == 1


def test_one_that_does_not_say_what_it_has_still_has_it() -> None:
    lab = two_members()
    lab.say("a", 1)

    lab.say("a", 1)

    assert lab.say("b", 2).parts is None


def test_nothing_is_written_where_nothing_changed() -> None:
    lab = shared()
    written = len(lab.log)

    lab.say("a", 2)

    assert len(lab.log) == written


def test_a_member_that_leaves_gives_all_it_had_to_the_others() -> None:
    lab = shared()

    assert lab.say("b", -1).epoch == -1

    assert lab.state == "Assigning"
    assert lab.say("a", 2).parts == lab.every("t")
    assert lab.state == "Stable"


def test_the_last_member_leaves_an_empty_group_that_keeps_its_epoch() -> None:
    lab = Lab(t=1)
    lab.join("a")

    lab.say("a", -1)

    assert lab.state == "Empty"
    assert lab.join("b").epoch == 3


def test_a_member_that_is_not_heard_for_its_session_is_lost() -> None:
    lab = shared()
    lab.advance(SESSION_MS - 1)
    lab.say("a", 2)

    lab.advance(1)

    assert list(lab.group.members) == ["a"]
    assert lab.say("a", 2).parts == lab.every("t")


def test_a_member_that_does_not_give_up_in_time_is_out_although_it_is_heard() -> None:
    lab = two_members()
    lab.say("a", 1)
    for _ in range(REBALANCE_MS // 5_000):
        lab.advance(5_000)
        if "a" in lab.group.members:
            lab.say("a", 1)
        lab.say("b", lab.member("b").epoch)

    assert list(lab.group.members) == ["b"]
    assert lab.member("b").assigned == lab.every("t")
    refused(lab, ErrorCode.unknown_member_id, Beat(member_id="a", epoch=1))


def test_one_that_gave_up_in_time_has_its_time_again_with_the_next() -> None:
    lab = two_members()
    kept = lab.say("a", 1).parts
    lab.advance(SESSION_MS - 1)
    lab.say("a", 1, kept)
    lab.say("b", 2)

    for _ in range(4):
        lab.advance(SESSION_MS - 1)
        lab.say("a", 2)
        lab.say("b", 2)

    assert lab.state == "Stable"


def test_an_epoch_that_is_not_its_own_is_fenced() -> None:
    lab = shared()

    refused(lab, ErrorCode.fenced_member_epoch, Beat(member_id="a", epoch=3))
    refused(lab, ErrorCode.fenced_member_epoch, Beat(member_id="a", epoch=1))


def test_the_epoch_before_is_taken_from_who_has_nothing_else() -> None:
    lab = shared()
    has = lab.member("a").assigned

    answer = lab.say("a", 1, has)

    assert (answer.epoch, answer.parts) == (2, has), "its last answer was lost: it is told again"
    lost = Beat(member_id="a", epoch=1, owned=lab.every("t"))
    refused(lab, ErrorCode.fenced_member_epoch, lost)


def test_who_is_fenced_begins_anew_and_is_told_all_it_has() -> None:
    lab = shared()
    has = lab.member("a").assigned

    answer = lab.join("a")

    assert (answer.epoch, answer.parts) == (2, has)
    assert lab.group.epoch == 2, "nothing changed for the group"


def test_what_a_member_had_before_it_began_anew_is_free_when_it_says_its_new_epoch() -> None:
    lab = two_members()
    lab.say("a", 1)

    answer = lab.join("a")

    assert answer.epoch == 2
    assert lab.say("b", 2).parts is None, "the join may be an old one"
    lab.fail_over()
    assert lab.say("a", 2).parts is None
    assert lab.say("b", 2).parts == lab.every("t") - (answer.parts or frozenset())
    assert lab.state == "Stable"


def test_an_old_join_takes_nothing_from_a_member_that_was_let_in_again() -> None:
    """Its connection was given up long ago, and the member has all it was told since."""
    lab = Lab(t=4)
    lab.join("a")
    lab.say("a", 1, lab.every("t"))
    lab.join("b")

    lab.join("a")

    assert lab.say("b", 2).parts is None
    refused(lab, ErrorCode.fenced_member_epoch, Beat(member_id="a", epoch=1))
    kept = lab.join("a").parts
    assert lab.say("b", 2).parts is None
    lab.say("a", 2, kept)
    assert lab.say("b", 2).parts == lab.every("t") - (kept or frozenset())


def test_an_old_join_gives_a_member_nothing_that_it_would_not_hear_of() -> None:
    lab = two_members()
    lab.say("a", 1, lab.say("a", 1).parts)
    free = lab.every("t") - lab.member("a").assigned
    assert lab.member("b").epoch == 2

    lab.join("b")

    assert lab.say("b", 2).parts == free, "the answer to that join was heard by nobody"
    assert lab.state == "Stable"


def test_a_member_nobody_knows_is_told_to_begin_anew() -> None:
    lab = Lab(t=1)

    refused(lab, ErrorCode.unknown_member_id, Beat(member_id="a", epoch=4))
    lab.join("b")
    refused(lab, ErrorCode.unknown_member_id, Beat(member_id="a", epoch=1))
    refused(lab, ErrorCode.unknown_member_id, Beat(member_id="a", epoch=-1))


def test_new_partitions_are_found_with_the_next_heartbeat() -> None:
    lab = Lab(t=1)
    lab.join("a")
    lab.grow("t", 3)

    answer = lab.say("a", 1)

    assert (answer.epoch, answer.parts) == (2, lab.every("t"))


def test_topics_that_nobody_reads_change_nothing() -> None:
    lab = Lab(t=1)
    lab.join("a")
    lab.create("other", 2)

    assert lab.say("a", 1).epoch == 1


def test_a_deleted_topic_is_given_up_like_any_other() -> None:
    lab = Lab(t=1, u=1)
    lab.join("a", "t", "u")
    lab.delete("u")

    told = lab.say("a", 1)

    assert (told.epoch, told.parts) == (1, lab.every("t"))
    assert lab.say("a", 1, lab.every("t")).epoch == 2


def test_a_topic_made_anew_is_another_one() -> None:
    lab = Lab(t=1)
    before = lab.join("a").parts
    lab.delete("t")
    lab.create("t", 1)

    lab.say("a", 1)
    after = lab.say("a", 1, frozenset()).parts

    assert after == lab.every("t") != before


def test_a_subscription_that_changes_changes_the_target() -> None:
    lab = Lab(t=1, u=1)
    lab.join("a")

    lab.say("a", 1, topics=frozenset({"u"}))

    assert lab.say("a", 1, frozenset()).parts == lab.every("u")


def test_expressions_read_what_they_match_and_what_comes_later() -> None:
    lab = Lab(**{"web-1": 1, "app": 1})
    joined = lab.join("a", topics=frozenset(), regex="web-[0-9]+")
    assert joined.parts == lab.every("web-1")

    lab.create("web-22", 2)

    assert lab.say("a", 1).parts == lab.every("web-1", "web-22")


def test_an_expression_that_makes_no_sense_is_refused() -> None:
    lab = Lab(t=1)
    with pytest.raises(KafkaError) as caught:
        lab.join("a", regex="web-[")
    assert caught.value.code is ErrorCode.invalid_regular_expression


def test_an_expression_that_another_version_took_matches_nothing() -> None:
    """RE2 repeats up to 1,000 times; what matched before was written by 2,000."""
    lab = Lab(t=1, web=1)
    lab.join("a", "t", regex="web")
    known = replace(lab.member("a"), regex="web|x{1500}")

    assert names_read([lab.member("a")], lab.topics) == {"t", "web"}
    assert names_read([known], lab.topics) == {"t"}


@pytest.mark.parametrize(
    "changes",
    [
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"topics": None},
        {"epoch": -3},
        {"epoch": -2},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    lab = Lab(t=1)
    with pytest.raises(KafkaError) as caught:
        lab.join(**({"member_id": "a"} | changes))
    assert caught.value.code is ErrorCode.invalid_request


def test_an_assignor_that_is_not_there_is_refused_and_the_known_are_named() -> None:
    lab = Lab(t=1)
    with pytest.raises(KafkaError, match="uniform, range") as caught:
        lab.join("a", assignor="sticky")
    assert caught.value.code is ErrorCode.unsupported_assignor


def test_the_assignor_that_most_ask_for_assigns() -> None:
    lab = Lab(t=2, u=2)
    lab.join("a", "t", "u", assignor="range")
    lab.join("b", "t", "u", assignor="range")

    assert lab.group.target["a"] == lab.parts("t", 0) | lab.parts("u", 0)


def test_a_full_group_takes_nobody_else() -> None:
    lab = Lab(t=1, size_max=1)
    lab.join("a")
    with pytest.raises(KafkaError) as caught:
        lab.join("b")
    assert caught.value.code is ErrorCode.group_max_size_reached
    lab.join("a")


# Static members.


def test_a_static_member_that_is_away_keeps_its_partitions_for_its_next_process() -> None:
    lab = Lab(t=4)
    lab.join("a", instance_id="one")
    lab.say("a", -2, instance_id="one")
    assert lab.state == "Stable"

    answer = lab.join("a2", instance_id="one")

    assert (answer.epoch, answer.parts) == (1, lab.every("t"))
    assert list(lab.group.members) == ["a2"]
    assert lab.group.epoch == 1, "nothing changed for the group"


def test_an_instance_id_in_use_is_not_taken_over() -> None:
    lab = Lab(t=1)
    lab.join("a", instance_id="one")
    with pytest.raises(KafkaError) as caught:
        lab.join("b", instance_id="one")
    assert caught.value.code is ErrorCode.unreleased_instance_id


def test_the_former_process_of_an_instance_is_fenced() -> None:
    lab = Lab(t=1)
    lab.join("a", instance_id="one")
    lab.say("a", -2, instance_id="one")
    lab.join("b", instance_id="one")

    refused(lab, ErrorCode.fenced_instance_id, Beat(member_id="a", epoch=1, instance_id="one"))
    refused(lab, ErrorCode.unknown_member_id, Beat(member_id="a", epoch=1))


def test_a_static_member_that_stays_away_is_lost_with_its_session() -> None:
    lab = Lab(t=1)
    lab.join("a", instance_id="one")
    lab.say("a", -2, instance_id="one")

    lab.advance(SESSION_MS)

    assert lab.state == "Empty"


# Commits.


def may_commit(lab: Lab, member_id: str, epoch: int) -> ErrorCode:
    return lab.groups.may_commit(lab.group, member_id, None, epoch)


def test_a_commit_of_another_epoch_is_stale() -> None:
    lab = shared()

    assert may_commit(lab, "a", 2) is ErrorCode.none
    assert may_commit(lab, "a", 1) is ErrorCode.stale_member_epoch
    assert may_commit(lab, "c", 2) is ErrorCode.unknown_member_id
    assert may_commit(lab, "", -1) is ErrorCode.unknown_member_id


def test_an_empty_group_takes_the_commits_of_admins() -> None:
    lab = Lab(t=1)
    lab.join("a")
    lab.say("a", -1)

    assert may_commit(lab, "", -1) is ErrorCode.none


# The log.


def test_what_the_log_refuses_has_not_happened() -> None:
    lab = Lab(t=2)
    lab.join("a")
    before = lab.group
    lab.refuses = True
    with pytest.raises(KafkaError):
        lab.join("b")

    assert lab.group is before


def test_a_member_lost_while_the_log_refuses_is_lost_when_it_does_not() -> None:
    lab = Lab(t=2)
    lab.join("a")
    lab.refuses = True
    lab.advance(2 * SESSION_MS)
    assert lab.state == "Stable"

    lab.refuses = False
    lab.advance(SESSION_MS)

    assert lab.state == "Empty"


def test_the_next_coordinator_goes_on_with_the_epochs_and_with_who_waits() -> None:
    lab = two_members()
    kept = lab.say("a", 1).parts

    lab.fail_over()

    assert lab.state == "Reconciling"
    assert lab.say("b", 2).parts is None
    assert lab.say("a", 1, kept).epoch == 2
    assert lab.say("b", 2).parts is not None
    assert lab.state == "Stable"


def test_the_next_coordinator_hears_each_member_for_a_session() -> None:
    lab = shared()
    lab.advance(SESSION_MS - 1)
    lab.fail_over()
    lab.advance(SESSION_MS - 1)
    assert lab.state == "Stable"

    lab.advance(1)

    assert lab.state == "Empty"


def test_a_topic_that_grew_meanwhile_is_seen_by_the_next_coordinator() -> None:
    lab = Lab(t=1)
    lab.join("a")
    lab.grow("t", 2)
    lab.fail_over()

    assert lab.say("a", 1).epoch == 2
