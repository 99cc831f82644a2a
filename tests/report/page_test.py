#!/usr/bin/env python3
"""Tests the page of `tandem report` in a headless Chromium: its contents, clicks, the search, keys and the theme.
The page must fetch nothing and log no errors. Prints how long a frame takes with 10,000 nodes and 100,000 tasks.

    tests/report/page_test.py TANDEM [--pictures DIRECTORY]     (DIRECTORY gets screenshots)

Exits with 77 if there is no Chromium.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import browser
import large

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "src" / "report" / "page"
DESKTOP, PHONE = (1280, 900), (390, 844)
failures = []


def expect(what, found, expected=True):
    """Adds a failure if `found` is not `expected`."""
    if found != expected:
        failures.append(f"{what}: {found!r}, expected {expected!r}")
        print(f"FAILED {failures[-1]}")


def assemble(document):
    """Returns the page for a document, as the program assembles it (src/report/report_page.cc)."""
    files = {path.stem: path.read_text() for path in PAGE.iterdir()}
    text = json.dumps(document).replace("<", "\\u003c")
    return re.sub(r"\{\{(\w+)\}\}", lambda name: text if name[1] == "data" else files[name[1]], files["page"])


def center(tab, selector):
    """Scrolls an element to the center of the window and returns its [left, top, width, height]."""
    tab.eval(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
    tab.wait_for_frames()
    return tab.eval(f"(() => {{ const b = document.querySelector({selector!r}).getBoundingClientRect();"
                    " return [b.left, b.top, b.width, b.height]; })()")


def count_colors(tab, canvas):
    """Returns the number of colors on a canvas, which is 1 if nothing is drawn."""
    return tab.eval(f"""(() => {{ const c = document.getElementById({canvas!r});
      const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const seen = new Set();
      for (let i = 0; i < d.length; i += 4 * 7) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
      return seen.size; }})()""")


def check_clean(tab, where):
    """Expects that the page logged no errors and requested nothing."""
    expect(f"errors {where}", tab.errors, [])
    outside = [url for url in tab.requests if not url.startswith(("file:", "data:"))]
    expect(f"requests {where}", outside, [])
    tab.errors, tab.requests = [], []


def check_structure(tab, has_search):
    expect("sections", tab.eval("[...document.querySelectorAll('section')].map(s => s.id)"),
           ["overview", "graph", "timeline", "memory", "machine", "strategies", "search"])
    expect("figures", tab.eval("document.querySelectorAll('.figure').length"), 4)
    expect("every section has text",
           tab.eval("[...document.querySelectorAll('section')].every(s => s.innerText.length > 60)"))
    for canvas in ("graph-canvas", "timeline-canvas", "memory-canvas", "machine-canvas"):
        expect(f"{canvas} is drawn", count_colors(tab, canvas) > 4)
    expect("baselines", tab.eval("document.querySelectorAll('#baselines .rule').length") > 1)
    expect("the search is described", tab.eval("document.querySelectorAll('#found-how dt').length") > 2, has_search)
    expect("tables fit the window",
           tab.eval("[...document.querySelectorAll('table')].filter(t => t.getBoundingClientRect().right > "
                 "document.documentElement.clientWidth + 1).map(t => t.closest('section').id)"), [])
    expect("nothing is wider than the screen",
           tab.eval("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


# Widths from a phone to a large screen.
WIDTHS = (400, 560, 640, 768, 900, 1024, 1280, 1440, 1800)

# JavaScript that finds texts that are cut off or wider than their card. A table may scroll in its own box.
TEXTS = """(() => {
  const bad = [];
  for (const e of document.querySelectorAll('main *, header *')) {
    const texts = [...e.childNodes].filter(n => n.nodeType === 3 && n.textContent.trim());
    const style = getComputedStyle(e);
    if (!texts.length || style.visibility === 'hidden' || !e.getClientRects().length || e.closest('.skip, option')) continue;
    if (style.textOverflow === 'ellipsis') bad.push(['ellipsis', e.textContent]);
    if (style.overflowX === 'hidden' && e.scrollWidth > e.clientWidth + 1) bad.push(['cut', e.textContent]);
    if (e.closest('.bar') && e.getBoundingClientRect().top > e.closest('.bar').getBoundingClientRect().bottom) continue;
    if (e.closest('nav')) continue;  // scrolls
    const card = e.closest('.figure, .panel, td, th, li, dd, svg, button, pre, .columns > div, .stage, section, header').getBoundingClientRect();
    for (const text of texts) {
      const range = document.createRange();
      range.selectNodeContents(text);
      for (const r of range.getClientRects()) {
        if (r.right > card.right + 1 || r.left < card.left - 1) bad.push(['outside its card', text.textContent]);
      }
    }
  }
  return bad.slice(0, 5);
})()"""

# JavaScript that finds texts on canvases that are cut off, wider than their node, or outside the canvas.
DRAWN = """(() => {
  const bad = [];
  const own = CanvasRenderingContext2D.prototype.fillText;
  let board, inside;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, most) {
    const width = Math.min(most === undefined ? Infinity : most, this.measureText(text).width);
    const left = this.textAlign === 'right' ? x - width : this.textAlign === 'center' ? x - width / 2 : x;
    if (String(text).endsWith('…')) bad.push(['cut', text]);
    const box = inside(x, y) || {left: 0, right: board.width};
    if (left < box.left - 0.5 || left + width > box.right + 0.5) bad.push(['outside', text, left, left + width, box]);
    own.call(this, text, x, y, most);
  };
  const nodes = () => graphView.layout.nodes;
  board = graphView.board;
  inside = (x, y) => {
    const n = nodes().find(n => x >= n.x && x <= n.x + n.width && y >= n.y - n.above.length * kPill - 4 && y <= n.y + n.height);
    return n ? {left: n.x, right: n.x + n.width} : {left: -1e9, right: 1e9};
  };
  const before = {...graphView.view};
  let drawn = 0;
  for (const scale of [1, 0.5]) {
    for (const n of nodes()) {
      graphView.view = {scale, x: -n.x * scale + 20, y: -n.y * scale + 60};
      board.drawNow();
      drawn += graphView.drawn;
    }
  }
  graphView.view = before;
  for (const one of [timeline.board, memoryCurve.board, machineView.board]) {
    board = one;
    inside = () => null;
    one.drawNow();
  }
  CanvasRenderingContext2D.prototype.fillText = own;
  graphView.board.drawNow();
  return {bad: bad.slice(0, 5), drawn};
})()"""


def check_texts(tab, page):
    """Expects that no text is cut off or leaves its card, at any width."""
    for width in WIDTHS:
        tab.set_size(width, 900, phone=width < 640)
        tab.wait_for_frames()
        expect(f"texts of {page} at {width} pixels", tab.eval(TEXTS), [])
        drawn = tab.eval(DRAWN)
        expect(f"drawn texts of {page} at {width} pixels", drawn["bad"], [])
        expect("nodes are drawn", drawn["drawn"] > 0)
        expect(f"{page} is no wider than {width} pixels",
               tab.eval("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def check_graph(tab):
    left, top, _, _ = center(tab, "#graph-canvas")
    x, y = tab.eval(
        "(() => { const n = graphView.layout.nodes.find(n => n.y * graphView.view.scale + graphView.view.y > 60);"
        " const v = graphView.view; return [(n.x + 40) * v.scale + v.x, (n.y + 12) * v.scale + v.y]; })()")
    tab.click(left + x, top + y)
    expect("a click selects", tab.eval("selection.node !== null"))
    expect("the details name the node",
           tab.eval("document.querySelector('#details .name').textContent === plan.graph.name[selection.node]"))
    expect("the details have its tensors", tab.eval("document.querySelectorAll('#details .tensor').length > 0"))
    before = tab.eval("selection.node")
    tab.press_key("ArrowDown")
    expect("a key selects the next node", tab.eval("selection.node") != before)
    scale = tab.eval("graphView.view.scale")
    tab.press_key("+")
    expect("a key zooms", tab.eval("graphView.view.scale") > scale)
    folded = tab.eval("graphView.layout.nodes.length")
    tab.eval("document.getElementById('fold').click()")
    tab.wait_for_frames()
    expect("unfolding draws more", tab.eval("graphView.layout.nodes.length") > folded,
           tab.eval("plan.graph.blocks.length") > 0)
    tab.eval("document.getElementById('fold').click()")


def check_rules(tab):
    """Checks a plan with rewrites: each operator names the rule and the step that made it, or that none did."""
    expect("the graph before can be chosen", tab.eval("!document.getElementById('before-choice').hidden"))
    rewritten = tab.eval("Object.entries(plan.graph.rules)")
    expect("rules made some nodes", len(rewritten) > 0)
    for node, (rule, step) in rewritten:
        tab.eval(f"selection.set({node}, 'find')")
        text = tab.eval("document.querySelector('#details .made-by').innerText")
        steps = tab.eval("plan.graph.steps")
        expect(f"node {node} names its rule", rule in text and f"step {step} of {steps}" in text)
        expect("the details have the text of the rule",
               "=>" in tab.eval("document.querySelector('#details .made-by + .doc').innerText"))
    others = tab.eval("plan.graph.name.map((_, n) => n).filter(n => !plan.graph.source[n] && !plan.graph.rules[n])")
    for node in others:
        tab.eval(f"selection.set({node}, 'find')")
        text = tab.eval("document.getElementById('details').innerText")
        expect(f"node {node} has no rule", "no rewrite made this node" in text)
        expect(f"node {node} has its time", "forward" in text)
    tab.eval("selection.set(null, 'find')")


def check_pipeline(tab):
    """Checks a plan with pipeline stages."""
    stages = tab.eval("plan.explanation.schedule.stages")
    expect("there are stages", stages > 1)
    expect("each stage has its rows", tab.eval("new Set(timeline.rows.map(r => r.head.number)).size"), stages)
    expect("sends are drawn", tab.eval("plan.graph.moves.some(m => m[2] === 'send')"))
    for stage in range(stages):
        node = tab.eval(f"plan.graph.stage.findIndex((s, n) => s === {stage} && !plan.graph.source[n])")
        tab.eval(f"selection.set({node}, 'find')")
        text = tab.eval("document.getElementById('details').innerText")
        expect(f"a node names stage {stage}", f"stage {stage + 1} of {stages}" in text)
    tab.eval("selection.set(null, 'find')")


def check_configuration(tab, tandem):
    """Expects that the command of the first configuration predicts the plan's step time."""
    command = tab.eval("plan.configurations[0].text").split()
    expect("the first configuration is a command", command[:2], ["tandem", "simulate"])
    answer = subprocess.run([tandem, *command[1:], "--json"], check=True, capture_output=True, text=True,
                            env=dict(os.environ, TANDEM_NO_CACHE="1"))
    simulated, shown = json.loads(answer.stdout)["iteration_s"], tab.eval("head.iteration_s")
    expect(f"the configuration takes the plan's time ({simulated}, {shown})", abs(simulated / shown - 1) < 1e-4)


def check_find(tab, name):
    tab.eval("document.activeElement.blur()")
    tab.press_key("/")
    expect("a slash goes to the search", tab.eval("document.activeElement.id"), "find")
    tab.type_text(name)
    expect("there are hits", tab.eval("document.querySelectorAll('#found li[role=option]').length") > 0)
    tab.press_key("Enter")
    expect("Enter chooses", tab.eval("plan.graph.name[selection.node]"), name)
    expect("the details name the hit", tab.eval("document.querySelector('#details .name').textContent"), name)
    tab.eval("document.getElementById('find').value = ''")
    tab.eval("document.getElementById('find').focus()")
    tab.type_text("no node at all")
    expect("a search without hits has a message", "No node" in tab.eval("document.getElementById('found').innerText"))
    tab.eval("document.getElementById('find').value = ''; document.activeElement.blur()")


def check_timeline(tab):
    left, top, _, _ = center(tab, "#timeline-canvas")
    x, y = tab.eval("(() => { const r = timeline.rows[0]; const s = r.stream; let i = 0;"
                    " for (let k = 0; k < s.size; ++k) if (s.end[k] - s.start[k] > s.end[i] - s.start[i]) i = k;"
                    " return [timeline.x((s.start[i] + s.end[i]) / 2), r.y + 10]; })()")
    tab.move_mouse(left + x, top + y)
    expect("hovering shows the task", len(tab.eval("document.getElementById('tip').innerText")) > 10)
    tab.click(left + x, top + y)
    expect("a click selects the task", len(tab.eval("document.getElementById('timeline-status').innerText")) > 10)
    span = tab.eval("timeline.to - timeline.from")
    tab.press_key("+")
    expect("a key zooms the timeline", tab.eval("timeline.to - timeline.from") < span)
    tab.press_key(".")
    tab.press_key("0")
    expect("0 shows all", tab.eval("timeline.to - timeline.from") >= span * 0.99)
    # The exposed communication of the busiest devices agrees with the simulator.
    exposed = tab.eval("timeline.rows.filter(r => r.head.number === plan.timeline.busiest && !r.stream.computes)"
                       ".map(r => joined(r.stream.bare.from, r.stream.bare.to)).reduce((a, b) => "
                       "({from: a.from.concat(b.from), to: a.to.concat(b.to)}), {from: [], to: []})")
    union = tab.eval(f"(() => {{ const e = {json.dumps(exposed)}; const u = joined(e.from, e.to);"
                     " return u.from.reduce((s, f, i) => s + u.to[i] - f, 0) * 1e-9; })()")
    simulated = tab.eval("head.exposed_comm_s")
    expect("exposed time is the simulator's", abs(union - simulated) <= 0.01 * simulated + 1e-6)


def check_theme(tab):
    theme = tab.eval("document.documentElement.dataset.theme")
    background = tab.eval("getComputedStyle(document.body).backgroundColor")
    tab.eval("document.getElementById('theme').click()")
    tab.wait_for_frames()
    expect("the theme changes", tab.eval("document.documentElement.dataset.theme") != theme)
    expect("the theme changes the background",
           tab.eval("getComputedStyle(document.body).backgroundColor") != background)
    tab.eval("document.getElementById('theme').click()")


def save_screenshots(tab, page, directory, name):
    for size, (width, height), phone in (("desktop", DESKTOP, False), ("phone", PHONE, True)):
        for scheme in ("light", "dark"):
            tab.set_size(width, height, phone, 2 if phone else 1)
            tab.set_scheme(scheme)
            tab.eval("localStorage.clear()")
            tab.open(page)
            tab.save_screenshot(directory / f"{name}-{size}-{scheme}.png", whole=True)


def measure(tab, directory):
    """Prints the times of layout and of frames of a large document."""
    page = directory / "large.html"
    page.write_text(assemble(large.build_document()))
    tab.set_size(*DESKTOP)
    tab.open(page)
    check_clean(tab, "of the large page")
    times = tab.eval("""(() => {
      const time = (board, step) => { const out = []; for (let i = 0; i < 60; ++i) { step(i); const t = performance.now(); board.drawNow(); out.push(performance.now() - t); }
        out.sort((a, b) => a - b); return {median: out[30], worst: out[59]}; };
      const lay = performance.now(); graphView.layItOut(); const laid = performance.now() - lay;
      const result = {nodes: plan.graph.name.length, tasks: timeline.rows.reduce((s, r) => s + r.stream.size, 0), layout: laid};
      graphView.start(); result.graph_near = time(graphView.board, () => graphView.pan(0, -25));
      graphView.fit(); result.graph_all = time(graphView.board, () => graphView.pan(0, -1));
      timeline.look(0, timeline.last); result.timeline_all = time(timeline.board, () => timeline.move(1000));
      timeline.look(0, timeline.last / 100); result.timeline_near = time(timeline.board, () => timeline.move(50000));
      result.memory = time(memoryCurve.board, () => {});
      return result; })()""")
    print("milliseconds: " + json.dumps({k: v if not isinstance(v, dict) else {a: round(b, 2) for a, b in v.items()}
                                         for k, v in times.items()}))
    expect("all nodes are there", times["nodes"], 10_000)
    expect("all tasks are there", times["tasks"], 100_000)


def run_tandem(tandem, *arguments, directory):
    environment = dict(os.environ, TANDEM_NO_CACHE="1", TANDEM_CHECK_BOUNDS="1")
    subprocess.run([tandem, *arguments], check=True, cwd=directory, env=environment, stdout=subprocess.DEVNULL)


def make_pages(tandem, directory):
    """Writes pages of a new plan, of a plan file, of a plan with rewrites, and of a pipeline."""
    model = ["gpt2:layers=6,hidden=64,heads=4,ffn=128,vocab=128,seq=32", "--machine", "dgx_a100:2", "--batch", "64"]
    run_tandem(tandem, "plan", *model, "-o", "plan.json", "--report", "found.html", directory=directory)
    run_tandem(tandem, "report", "plan.json", "-o", "read.html", "--compare", "2", directory=directory)
    run_tandem(tandem, "plan", "bert_large:layers=3", "--machine", "dgx_a100:1", "--dtype", "bf16", "-o", "plan.json",
               "--report", "rewritten.html", directory=directory)
    run_tandem(tandem, "simulate", "gpt2:layers=8,seq=128,vocab=512", "--machine", "dgx_a100:1", "--batch", "32",
               "--strategy", "megatron:tp=2,pp=4,micro=8", "--dtype", "bf16", "--grad-dtype", "bf16", "-o", "plan.json",
               directory=directory)
    run_tandem(tandem, "report", "plan.json", "-o", "pipeline.html", directory=directory)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tandem")
    parser.add_argument("--pictures", type=pathlib.Path)
    flags = parser.parse_args()
    path = browser.find_chromium()
    if path is None:
        print("skipped: there is no Chromium (package chromium)")
        return 77
    tandem = os.path.abspath(flags.tandem)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        make_pages(tandem, directory)
        tab = browser.Browser(path)
        try:
            for page, has_search in (("found", True), ("read", False)):
                tab.set_size(*DESKTOP)
                tab.set_scheme("light")
                tab.open(directory / f"{page}.html")
                check_structure(tab, has_search)
                expect(f"parallelism of {page}",
                       tab.eval("document.getElementById('parallelism').innerText.length > 3"))
                expect(f"configurations of {page}",
                       tab.eval("document.querySelectorAll('#configuration .segments button').length >= 3"))
                check_texts(tab, page)
                check_clean(tab, f"on opening {page}")
            for page, has_search, check in (("rewritten", True, check_rules), ("pipeline", False, check_pipeline)):
                tab.open(directory / f"{page}.html")
                check_structure(tab, has_search)
                check(tab)
                check_texts(tab, page)
                if page == "pipeline":
                    check_configuration(tab, tandem)
                check_clean(tab, f"of {page}")
                tab.set_size(*DESKTOP)
            tab.open(directory / "read.html")
            check_graph(tab)
            check_find(tab, "l3.scores")
            check_timeline(tab)
            check_theme(tab)
            check_clean(tab, "after all actions")
            tab.set_size(*PHONE, phone=True)
            tab.set_scheme("dark")
            tab.open(directory / "found.html")
            expect("a chosen theme persists", tab.eval("document.documentElement.dataset.theme"), "light")
            tab.eval("localStorage.removeItem('tandem-theme')")
            tab.open(directory / "found.html")
            expect("the system's theme is used", tab.eval("document.documentElement.dataset.theme"), "dark")
            check_structure(tab, True)
            check_clean(tab, "on a phone")
            if flags.pictures:
                flags.pictures.mkdir(parents=True, exist_ok=True)
                save_screenshots(tab, directory / "found.html", flags.pictures, "found")
            measure(tab, directory)
        finally:
            tab.close()
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
