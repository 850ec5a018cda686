"""ictcli inspect: show recorded rollouts token by token, and which tokens methods keep."""

from pathlib import Path

import click

from ictcli.cli import RUN, json_option
from ictcli.cli.options import TRUST
from ictcli.errors import UserError


@click.command("inspect")
@click.argument("source", metavar="RUN|MODEL", **RUN)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--branches", is_flag=True, help="Show how many branches each method trains.")
@click.option("--step", type=click.IntRange(0), help="Recorded step to show.  [default: the last]")
@click.option(
    "--prompt", type=int, help="Prompt number to show.  [default: the first with unequal rewards]"
)
@click.option("--method", "methods", help="Methods to show, separated by commas.")
@click.option(
    "--by", metavar="STATISTIC", help="Shade tokens by uniqueness, entropy, purity, weight or prob."
)
@click.option("--model", help="Use the tokenizer of this model instead of the run's.")
@click.option("--plain", is_flag=True, help="Print the group as text even on a terminal.")
@json_option(help="Print the group as JSON.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write an HTML page.")
@TRUST
def command(
    source: Path,
    overrides: tuple[str, ...],
    branches: bool,
    step: int | None,
    prompt: int | None,
    methods: str | None,
    by: str | None,
    model: str | None,
    plain: bool,
    as_json: bool,
    html: Path | None,
) -> int:
    """Look at the recorded rollouts of a run.

    Tokens are shaded by uniqueness, and marked if the method kept (trained) them. Other methods
    show which tokens of these rollouts they would have kept. On a terminal you move with keys;
    elsewhere one group of rollouts is printed.

    --branches shows, over all groups, how often each method keeps branches (tokens at which
    responses to one prompt diverge) and tokens that the model is sure of. For a MODEL and
    task=TASK it samples the groups first; nothing is trained.

    \b
    ictcli inspect runs/mine
    ictcli inspect runs/mine --step 50 --prompt 3 --method ict,entropy20 --by entropy
    ictcli inspect runs/mine --json
    ictcli inspect runs/mine --html group.html
    ictcli inspect runs/mine --branches
    ictcli inspect builtin:ledger task=ledger prompts=8 --branches
    """
    from ictcli.console.inspect import can_move, print_group
    from ictcli.console.lines import narrate, output
    from ictcli.inspect.page import check_target
    from ictcli.inspect.view import open_step
    from ictcli.runs.list import find_run

    if as_json and html:
        raise UserError("--json and --html exclude each other.", "use only one of them")
    names = [name.strip() for name in (methods or "").split(",") if name.strip()]
    if methods is not None and not names:
        raise UserError("--method names no method.", "ictcli methods lists the methods")
    if branches:
        from ictcli.console.branches import print_branches
        from ictcli.inspect.branches import recorded_or_sampled

        print_branches(
            recorded_or_sampled(str(source), overrides, step, names, narrate), as_json=as_json
        )
        return 0
    if overrides:
        raise UserError("KEY=VALUE needs --branches and a model.", "leave it out")
    if html:
        check_target(html)
    view = open_step(find_run(source), step, names, by, model)
    group = view.group(prompt)
    if not (plain or as_json or html) and can_move():
        from ictcli.console.inspect_app import move

        return move(view, group)
    for note in group.notes:
        narrate(f"note: {note}")
    if html:
        from ictcli.files import write_text
        from ictcli.inspect.page import page, page_data

        data = page_data(view, group)
        write_text(html, page(group, data))
        narrate(*group.missing.values(), " ".join(data.summary))
        output(html)
    else:
        print_group(group, as_json=as_json)
    return 0
