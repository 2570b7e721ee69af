# SPDX-License-Identifier: Apache-2.0
"""Compares what Orbax's policies and Cairn's decide: `orbax_decides.py PROGRAM HISTORIES SEED`.

PROGRAM is cairn_training_decisions. Where they are meant to differ (docs/training.md has the reasons), histories are counted and not
compared; there must be HISTORIES others for each policy.
"""

import datetime
import json
import random
import subprocess
import sys
import types

import orbax.checkpoint as ocp
from orbax.checkpoint._src.checkpoint_managers import preservation_policy as preserve
from orbax.checkpoint._src.checkpoint_managers import save_decision_policy as save

BATCH = 2000
SECOND = 10**9
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Info:
    """A checkpoint as Orbax's policies see it."""

    def __init__(self, step, nanoseconds, metric):
        self.step = step
        self.time = EPOCH + datetime.timedelta(microseconds=nanoseconds // 1000)
        self.metrics = None if metric is None else {"metric": metric}


class Clock(datetime.datetime):
    """The time of the day, for Orbax's module that looks at it."""

    moment = EPOCH

    @classmethod
    def now(cls, tz=None):
        return cls.moment.astimezone(tz)


preserve.datetime = types.SimpleNamespace(
    datetime=Clock, timedelta=datetime.timedelta, timezone=datetime.timezone
)


def random_steps(dice):
    """Steps with times and metrics: missing ones, equal times, and clocks that are set back."""
    steps = []
    step = dice.choice([0, 0, 1, dice.randrange(1000), dice.randrange(2**40)])
    moment = 1_700_000_000 * SECOND + dice.randrange(10**6) * SECOND
    few_metrics = dice.random() < 0.3
    for _ in range(dice.choice([0, 1, 2, 3, dice.randrange(4, 20)])):
        metric = None if dice.random() < (0.5 if few_metrics else 0.05) else dice.choice([dice.random(), dice.randrange(3)])
        steps.append([step, moment, metric])
        step += dice.choice([1, 1, 2, 5, 10, dice.randrange(1, 100)])
        moment += dice.choice([0, 1, 10, 60, 61, 3600, dice.randrange(100_000)]) * SECOND
        if dice.random() < 0.01:
            moment -= dice.randrange(10_000) * SECOND
    return steps


def random_number(dice):
    return dice.choice([1, 2, 3, 5, 7, 10, 60, 100, dice.randrange(1, 5000)])


def now_after(dice, steps):
    latest = max((step[1] for step in steps), default=1_700_000_000 * SECOND)
    return latest + dice.choice([0, 1, 59, 60, 3600, dice.randrange(200_000)]) * SECOND


# What to keep: for each policy a question, Orbax's policy, and why they may differ.

def keep_question(dice, name):
    steps = random_steps(dice)
    question = {"policy": name, "n": random_number(dice), "steps": steps, "now": now_after(dice, steps)}
    if name in ("latest", "best"):
        question["n"] = dice.randrange(6)
    if name == "at_steps":
        question["wanted"] = dice.sample([step[0] for step in steps] + list(range(50)), dice.randrange(10))
    if name == "best":
        question["lower"] = dice.random() < 0.5
        question["keep_unmeasured"] = dice.random() < 0.5
    if name == "any_of":
        parts = [keep_question(dice, dice.choice(KEEP[:-1])) for _ in range(dice.randrange(1, 4))]
        question["parts"] = [{**part, "steps": steps, "now": question["now"]} for part in parts]
    return question


def orbax_keeps(question):
    name, number = question["policy"], question["n"]
    if name == "any_of":
        return preserve.AnyPreservationPolicy([orbax_keeps(part) for part in question["parts"]])
    return {
        "all": lambda: preserve.PreserveAll(),
        "latest": lambda: preserve.LatestN(number),
        "every_steps": lambda: preserve.EveryNSteps(number),
        "steps_apart": lambda: preserve.EveryNSteps(number, exact_interval=False),
        "nearest_to_every": lambda: preserve.EveryNStepsClosest(number),
        "time_apart": lambda: preserve.EveryNSeconds(number),
        "at_steps": lambda: preserve.CustomSteps(question["wanted"]),
        "younger_than": lambda: preserve.LatestDuration(datetime.timedelta(seconds=number)),
        "best": lambda: preserve.BestN(
            get_metric_fn=lambda metrics: metrics["metric"],
            reverse=question["lower"],
            n=number,
            keep_checkpoints_without_metrics=question["keep_unmeasured"],
        ),
    }[name]()


def is_set_back(steps):
    return any(later[1] < earlier[1] for earlier, later in zip(steps, steps[1:]))


def differs_on_purpose(question):
    """Why the answers may differ, for a question about what to keep; nothing where they may not."""
    name, number, steps = question["policy"], question["n"], question["steps"]
    if name == "any_of":
        return next(filter(None, map(differs_on_purpose, question["parts"])), None)
    if not steps:
        return None
    if name == "nearest_to_every":
        if any(2 * (step[0] % number) == number for step in steps):
            return "half way between two multiples: Orbax rounds to even, Cairn up"
        by_multiple = {}
        for index, step in enumerate(steps):
            multiple = (step[0] + number // 2) // number
            best = by_multiple.setdefault(multiple, index)
            if abs(step[0] - multiple * number) <= abs(steps[best][0] - multiple * number):
                by_multiple[multiple] = index
        if len(steps) - 1 not in by_multiple.values():
            return "Orbax keeps the last one, whatever the rule says; in Cairn no policy has to"
    if name in ("time_apart", "younger_than") and is_set_back(steps):
        return "the clock was set back"
    if name == "younger_than" and any(question["now"] - step[1] == number * SECOND for step in steps):
        return "just as old as that: Orbax keeps it, Cairn does not"
    if name == "best":
        unmeasured = sum(step[2] is None for step in steps)
        if number == 0 and unmeasured and question["keep_unmeasured"]:
            return "best of none: Orbax drops those without the metric, too, that were to be kept"
        if not question["keep_unmeasured"] and unmeasured == len(steps):
            return "no step has the metric: Cairn refuses, so that a mistyped name removes nothing"
        if not question["keep_unmeasured"] and unmeasured and len(steps) <= number:
            return "few steps: Orbax keeps those without the metric that were to be dropped"
    return None


# When to save.

def save_question(dice, name):
    steps = random_steps(dice)
    latest = steps[-1][0] if steps else 0
    question = {
        "policy": name,
        "n": random_number(dice),
        "steps": steps,
        "step": latest + dice.choice([0, 1, 2, dice.randrange(1000)]),
        "now": (steps[-1][1] if steps else 1_700_000_000 * SECOND)
        + dice.choice([0, 1, 2, 59, 60, 61, dice.randrange(10_000)]) * SECOND,
        "is_saving": dice.random() < 0.3,
        "is_preempted": dice.random() < 0.3,
        "wanted": dice.sample(range(latest, latest + 100), dice.randrange(20)),
    }
    if name == "any_of":
        parts = [save_question(dice, dice.choice(SAVE[:-1])) for _ in range(dice.randrange(1, 4))]
        question["parts"] = [{"policy": part["policy"], "n": part["n"], "wanted": part["wanted"]} for part in parts]
    return question


def orbax_saves(question):
    name, number = question["policy"], question["n"]
    if name == "any_of":
        return save.AnySavePolicy([orbax_saves(part) for part in question["parts"]])
    return {
        "every_steps": lambda: save.FixedIntervalPolicy(number),
        "continuously": lambda: save.ContinuousCheckpointingPolicy(minimum_interval_secs=number),
        "at_steps": lambda: save.SpecificStepsPolicy(question["wanted"]),
        "first": lambda: save.InitialSavePolicy(),
        "preempted": lambda: save.PreemptionCheckpointingPolicy(),
    }[name]()


KEEP = ["all", "latest", "every_steps", "steps_apart", "nearest_to_every", "time_apart", "at_steps", "younger_than", "best", "any_of"]
SAVE = ["every_steps", "continuously", "at_steps", "first", "preempted", "any_of"]


def ask_orbax(question):
    infos = [Info(*step) for step in question["steps"]]
    if "step" in question:
        context = save.DecisionContext(
            is_saving_in_progress=question["is_saving"],
            reached_preemption=question["is_preempted"],
            multiprocessing_options=ocp.options.MultiprocessingOptions(),
        )
        step = Info(question["step"], question["now"], None)
        return "1" if orbax_saves(question).should_save(step, infos, context=context) else "0"
    Clock.moment = EPOCH + datetime.timedelta(microseconds=question["now"] // 1000)
    kept = orbax_keeps(question).should_preserve(infos, context=preserve.PreservationContext())
    return "".join("1" if each else "0" for each in kept)


def compare(program, kind, name, histories, dice):
    """Returns how many were equal, how many may differ, and how many of these do."""
    make = keep_question if kind == "keep" else save_question
    equal, other, different = 0, 0, 0
    while equal < histories:
        questions = [make(dice, name) for _ in range(BATCH)]
        answers = subprocess.run(
            [program], input="\n".join(map(json.dumps, questions)), capture_output=True, text=True, check=True
        ).stdout.split("\n")[:-1]
        if len(answers) != BATCH:
            sys.exit(f"{program} has answered {len(answers)} of {BATCH} questions")
        for question, answer in zip(questions, answers):
            expected = ask_orbax(question)
            if kind == "keep" and differs_on_purpose(question):
                other += 1
                different += answer != expected
            elif answer != expected:
                sys.exit(f"{kind} {name}: Orbax says {expected}, Cairn {answer}: {json.dumps(question)}")
            else:
                equal += 1
    return equal, other, different


def main(program, histories, seed):
    dice = random.Random(seed)
    total, deviating = 0, 0
    for kind, names in (("keep", KEEP), ("save", SAVE)):
        for name in names:
            equal, other, different = compare(program, kind, name, histories, dice)
            print(f"{kind:5} {name:17} {equal:9} equal, {other:8} where they may differ, of which {different:8} do", flush=True)
            total += equal
            deviating += different
    print(f"orbax: {len(KEEP) + len(SAVE)} policies, {total} histories with equal decisions, {deviating} that differ on purpose (seed {seed})")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
