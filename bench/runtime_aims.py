"""The table of bench/runtime, and the aims that its ratios reach."""

import math
import statistics

MODES = {"ddp": "DDP", "sharded": "sharded by hand", "one": "one process, 2 threads"}
# Networks in which DDP's communication takes the largest part of a step.
TWICE = ["mlp2048", "mlp8192", "dlrm"]
HEAD = (
    "| model | ours, found plan | predicted | predicted / ours | ours, dp | DDP | its communication | sharded by hand "
    "| one process, 2 threads | best PyTorch / ours | DDP / ours | DDP / our dp | others |\n" + "|---|" + 12 * "--:|"
)


class Row:
    """The runs of one model's contenders, and the ratios between them."""

    def __init__(self, model, runs):
        self.model = model
        self.runs = runs
        self.ours, self.own_dp = runs.get("ours"), runs.get("ours dp")
        self.peers = {mode: self.find_best(mode) for mode in MODES}
        self.fastest = min((p for p in self.peers.values() if p), key=lambda r: r.median, default=None)

    def find_best(self, mode):
        """Returns the fastest contender of a mode, or None."""
        contenders = [r for name, r in self.runs.items() if name.split(",")[0] == mode]
        return min(contenders, key=lambda r: r.median, default=None)

    def compute_ratio(self, a, b):
        return a.median / b.median if a and b else None

    @property
    def best_to_ours(self):
        return self.compute_ratio(self.fastest, self.ours)

    @property
    def ddp_to_ours(self):
        return self.compute_ratio(self.peers["ddp"], self.ours)

    @property
    def ddp_to_own_dp(self):
        return self.compute_ratio(self.peers["ddp"], self.own_dp)

    @property
    def communication(self):
        """The part of DDP's step that all-reducing gradients takes."""
        ddp = self.peers["ddp"]
        return None if ddp is None else max(0.0, 1 - ddp.alone / ddp.median)

    @property
    def predicted(self):
        return self.ours.answer["predicted_step_s"] if self.ours else None

    @property
    def predicted_to_ours(self):
        return self.predicted / self.ours.median if self.ours else None

    def format(self):
        """Returns the row of the Markdown table."""
        strategy = f" {self.ours.answer['strategy']}" if self.ours else ""
        others = statistics.median(o for r in self.runs.values() for o in r.others) if self.runs else 0
        cells = [
            self.model,
            format_cell(self.ours) + strategy,
            "–" if self.predicted is None else f"{1e3 * self.predicted:.4g}",
            format_number(self.predicted_to_ours),
            format_cell(self.own_dp),
            format_cell(self.peers["ddp"]),
            format_percent(self.communication),
            format_cell(self.peers["sharded"]),
            format_cell(self.peers["one"]),
            format_number(self.best_to_ours),
            format_number(self.ddp_to_ours),
            format_number(self.ddp_to_own_dp),
            format_percent(others),
        ]
        return f"| {' | '.join(cells)} |"


def format_cell(run):
    return "–" if run is None else f"{1e3 * run.median:.4g} ({1e3 * run.least:.4g})"


def format_number(value):
    return "–" if value is None else f"{value:.2f}"


def format_percent(part):
    return "–" if part is None else f"{100 * part:.0f} %"


def compute_geometric_mean(ratios):
    return math.exp(statistics.fmean(math.log(r) for r in ratios))


def check_aims(rows):
    """Yields (aim, value, whether the value reaches the aim)."""

    def check_least(what, value, least):
        if value is not None:
            yield f"{what} at least {least}", format_number(value), value >= least

    for row in rows:
        yield from check_least(f"{row.model}: best PyTorch / ours", row.best_to_ours, 0.97)
    ratios = [row.best_to_ours for row in rows if row.best_to_ours]
    if len(ratios) > 1:
        yield from check_least("geometric mean of best PyTorch / ours", compute_geometric_mean(ratios), 1.05)
    for row in rows:
        if row.model in TWICE:
            yield from check_least(f"{row.model}: DDP / ours", row.ddp_to_ours, 2)
    for row in rows:
        if row.communication is not None:
            much = row.communication >= 0.2
            share = f"communication {format_percent(row.communication)}"
            yield from check_least(f"{row.model}: DDP / our dp, {share},", row.ddp_to_own_dp, 1.2 if much else 1.0)
    for row in rows:
        value = row.predicted_to_ours
        if value is not None:
            yield f"{row.model}: predicted / ours from 0.85 to 1.15", format_number(value), 0.85 <= value <= 1.15


def print_aims(rows):
    aims = list(check_aims(rows))
    print("\n| aim | is | met |\n|---|--:|---|")
    for what, value, met in aims:
        print(f"| {what} | {value} | {'yes' if met else 'no'} |")
    print(f"\n{sum(met for *_, met in aims)} of {len(aims)} aims are met.")
