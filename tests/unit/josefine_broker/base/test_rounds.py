"""Long walks over what changes meanwhile, and looks at a part at a time."""

from josefine_broker.base.rounds import PER_ROUND, PER_STEP, Rounds, steps


def test_steps_see_what_stays_and_let_others_change_it() -> None:
    things = {key: str(key) for key in range(3 * PER_STEP)}
    seen = []

    for each in steps(things):
        if each is not None:
            seen.append(each[0])
        elif PER_STEP in things:
            del things[PER_STEP], things[0]
            things[-1] = "new"

    assert seen == [key for key in range(3 * PER_STEP) if key != PER_STEP]


def test_steps_pause_every_so_many() -> None:
    pauses = [at for at, each in enumerate(steps(dict.fromkeys(range(250), 1))) if each is None]

    assert pauses == [PER_STEP, 2 * PER_STEP + 1]


def test_few_are_all_looked_at_each_time() -> None:
    rounds = Rounds[int]()

    assert rounds.next(range(5)) == rounds.next(range(5)) == [0, 1, 2, 3, 4]
    assert rounds.next([]) == []


def test_many_are_all_looked_at_in_turn() -> None:
    rounds, many = Rounds[int](), range(3 * PER_ROUND + 7)

    looks = [rounds.next(many) for _ in range(4)]

    assert [key for look in looks for key in look] == list(many)
    assert max(map(len, looks)) == PER_ROUND
    assert rounds.next(range(3)) == [0, 1, 2]
