#!/usr/bin/env python3
"""The page that `tandem report` writes, opened in a headless Chromium: what is there, what clicking,
searching, keys and the theme do, that nothing is fetched and nothing complained about, and how long
a frame takes of 10,000 nodes and 100,000 tasks (told, not judged).

    tests/report/page_test.py TANDEM [--pictures DIRECTORY]

Ends with status 77 where there is no Chromium.
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


def expect(what, found, wanted=True):
    if found != wanted:
        failures.append(f"{what}: {found!r} and not {wanted!r}")
        print(f"FAILED {failures[-1]}")


def assemble(document):
    """The page as the program puts it together (src/report/report_page.cc)."""
    files = {path.stem: path.read_text() for path in PAGE.iterdir()}
    text = json.dumps(document).replace("<", "\\u003c")
    return re.sub(r"\{\{(\w+)\}\}", lambda name: text if name[1] == "data" else files[name[1]], files["page"])


def center(of, what):
    """Where on the screen the middle of an element is, once it is scrolled to."""
    of.js(f"document.querySelector({what!r}).scrollIntoView({{block: 'center'}})")
    of.frames()
    box = of.js(f"(() => {{ const b = document.querySelector({what!r}).getBoundingClientRect();"
                " return [b.left, b.top, b.width, b.height]; })()")
    return box


def ink(of, canvas):
    """How many different colours a canvas shows: one where nothing is drawn."""
    return of.js(f"""(() => {{ const c = document.getElementById({canvas!r});
      const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const seen = new Set();
      for (let i = 0; i < d.length; i += 4 * 7) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
      return seen.size; }})()""")


def check_clean(of, where):
    expect(f"complaints {where}", of.errors, [])
    outside = [url for url in of.requests if not url.startswith(("file:", "data:"))]
    expect(f"requests {where}", outside, [])
    of.errors, of.requests = [], []


def check_structure(of, has_search):
    expect("sections", of.js("[...document.querySelectorAll('section')].map(s => s.id)"),
           ["overview", "graph", "timeline", "memory", "machine", "strategies", "search"])
    expect("figures", of.js("document.querySelectorAll('.figure').length"), 4)
    expect("every section says something",
           of.js("[...document.querySelectorAll('section')].every(s => s.innerText.length > 60)"))
    for canvas in ("graph-canvas", "timeline-canvas", "memory-canvas", "machine-canvas"):
        expect(f"{canvas} is drawn", ink(of, canvas) > 4)
    expect("baselines", of.js("document.querySelectorAll('#baselines .rule').length") > 1)
    expect("the search is told", of.js("document.querySelectorAll('#found-how dt').length") > 2, has_search)
    expect("tables have room",
           of.js("[...document.querySelectorAll('table')].filter(t => t.getBoundingClientRect().right > "
                 "document.documentElement.clientWidth + 1).map(t => t.closest('section').id)"), [])
    expect("nothing is wider than the screen",
           of.js("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


# Widths from a phone to a large screen.
WIDTHS = (400, 560, 640, 768, 900, 1024, 1280, 1440, 1800)

# Texts of the document that are cut or wider than their card. A table may scroll in its own box.
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

# Texts on the canvases that are cut, wider than their node or outside the canvas.
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


def check_texts(of, page):
    """No text is cut or leaves its card, at any width."""
    for width in WIDTHS:
        of.size(width, 900, phone=width < 640)
        of.frames()
        expect(f"texts of {page} at {width} pixels", of.js(TEXTS), [])
        drawn = of.js(DRAWN)
        expect(f"drawn texts of {page} at {width} pixels", drawn["bad"], [])
        expect("nodes are drawn", drawn["drawn"] > 0)
        expect(f"{page} is no wider than {width} pixels",
               of.js("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def check_graph(of):
    left, top, _, _ = center(of, "#graph-canvas")
    x, y = of.js("(() => { const n = graphView.layout.nodes.find(n => n.y * graphView.view.scale + graphView.view.y > 60);"
                 " const v = graphView.view; return [(n.x + 40) * v.scale + v.x, (n.y + 12) * v.scale + v.y]; })()")
    of.click(left + x, top + y)
    expect("a click selects", of.js("selection.node !== null"))
    expect("and tells the node", of.js("document.querySelector('#details .name').textContent === plan.graph.name[selection.node]"))
    expect("with its tensors", of.js("document.querySelectorAll('#details .tensor').length > 0"))
    before = of.js("selection.node")
    of.key("ArrowDown")
    expect("a key goes on", of.js("selection.node") != before)
    scale = of.js("graphView.view.scale")
    of.key("+")
    expect("a key zooms", of.js("graphView.view.scale") > scale)
    folded = of.js("graphView.layout.nodes.length")
    of.js("document.getElementById('fold').click()")
    of.frames()
    expect("unfolding draws more", of.js("graphView.layout.nodes.length") > folded, of.js("plan.graph.blocks.length") > 0)
    of.js("document.getElementById('fold').click()")


def check_rules(of):
    """Of a plan that rewrites: every operator tells which rule made it, and in which step, or that none did."""
    expect("the graph before can be chosen", of.js("!document.getElementById('before-choice').hidden"))
    made = of.js("Object.entries(plan.graph.rules)")
    expect("rules made some nodes", len(made) > 0)
    for node, (rule, step) in made:
        of.js(f"selection.set({node}, 'find')")
        told = of.js("document.querySelector('#details .made-by').innerText")
        expect(f"node {node} tells its rule", rule in told and f"step {step} of {of.js('plan.graph.steps')}" in told)
        expect("and what the rule says", "=>" in of.js("document.querySelector('#details .made-by + .doc').innerText"))
    others = of.js("plan.graph.name.map((_, n) => n).filter(n => !plan.graph.source[n] && !plan.graph.rules[n])")
    for node in others:
        of.js(f"selection.set({node}, 'find')")
        told = of.js("document.getElementById('details').innerText")
        expect(f"node {node} was made by none", "no rewrite made this node" in told)
        expect(f"node {node} has its time", "forward" in told)
    of.js("selection.set(null, 'find')")


def check_pipeline(of):
    stages = of.js("plan.explanation.schedule.stages")
    expect("there are stages", stages > 1)
    expect("each has its rows", of.js("new Set(timeline.rows.map(r => r.head.number)).size"), stages)
    expect("what is sent is drawn", of.js("plan.graph.moves.some(m => m[2] === 'send')"))
    for stage in range(stages):
        node = of.js(f"plan.graph.stage.findIndex((s, n) => s === {stage} && !plan.graph.source[n])")
        of.js(f"selection.set({node}, 'find')")
        expect(f"a node tells stage {stage}", f"stage {stage + 1} of {stages}" in of.js("document.getElementById('details').innerText"))
    of.js("selection.set(null, 'find')")


def check_configuration(of, tandem):
    """The command of the first configuration predicts the plan's own step time."""
    command = of.js("plan.configurations[0].text").split()
    expect("the first configuration is a command", command[:2], ["tandem", "simulate"])
    answer = subprocess.run([tandem, *command[1:], "--json"], check=True, capture_output=True, text=True,
                            env=dict(os.environ, TANDEM_NO_CACHE="1"))
    own, told = json.loads(answer.stdout)["iteration_s"], of.js("head.iteration_s")
    expect(f"the configuration takes the plan's time ({own}, {told})", abs(own / told - 1) < 1e-4)


def check_find(of, name):
    of.js("document.activeElement.blur()")
    of.key("/")
    expect("a slash goes to the search", of.js("document.activeElement.id"), "find")
    of.type(name)
    expect("there are hits", of.js("document.querySelectorAll('#found li[role=option]').length") > 0)
    of.key("Enter")
    expect("Enter chooses", of.js("plan.graph.name[selection.node]"), name)
    expect("what was searched is told", of.js("document.querySelector('#details .name').textContent"), name)
    of.js("document.getElementById('find').value = ''")
    of.js("document.getElementById('find').focus()")
    of.type("no node at all")
    expect("no hits are said", "No node" in of.js("document.getElementById('found').innerText"))
    of.js("document.getElementById('find').value = ''; document.activeElement.blur()")


def check_timeline(of):
    left, top, _, _ = center(of, "#timeline-canvas")
    x, y = of.js("(() => { const r = timeline.rows[0]; const s = r.stream; let i = 0;"
                 " for (let k = 0; k < s.size; ++k) if (s.end[k] - s.start[k] > s.end[i] - s.start[i]) i = k;"
                 " return [timeline.x((s.start[i] + s.end[i]) / 2), r.y + 10]; })()")
    of.move(left + x, top + y)
    expect("hovering tells the task", len(of.js("document.getElementById('tip').innerText")) > 10)
    of.click(left + x, top + y)
    expect("a click keeps it", len(of.js("document.getElementById('timeline-status').innerText")) > 10)
    span = of.js("timeline.to - timeline.from")
    of.key("+")
    expect("a key zooms the timeline", of.js("timeline.to - timeline.from") < span)
    of.key(".")
    of.key("0")
    expect("0 shows all", of.js("timeline.to - timeline.from") >= span * 0.99)
    # What is exposed on the busiest devices is what the simulator says.
    exposed = of.js("timeline.rows.filter(r => r.head.number === plan.timeline.busiest && !r.stream.computes)"
                    ".map(r => joined(r.stream.bare.from, r.stream.bare.to)).reduce((a, b) => "
                    "({from: a.from.concat(b.from), to: a.to.concat(b.to)}), {from: [], to: []})")
    union = of.js(f"(() => {{ const e = {json.dumps(exposed)}; const u = joined(e.from, e.to);"
                  " return u.from.reduce((s, f, i) => s + u.to[i] - f, 0) * 1e-9; })()")
    told = of.js("head.exposed_comm_s")
    expect("exposed time is the simulator's", abs(union - told) <= 0.01 * told + 1e-6)


def check_theme(of):
    theme = of.js("document.documentElement.dataset.theme")
    paper = of.js("getComputedStyle(document.body).backgroundColor")
    of.js("document.getElementById('theme').click()")
    of.frames()
    expect("the theme changes", of.js("document.documentElement.dataset.theme") != theme)
    expect("and with it the paper", of.js("getComputedStyle(document.body).backgroundColor") != paper)
    of.js("document.getElementById('theme').click()")


def take_pictures(of, page, directory, name):
    for size, (width, height), phone in (("desktop", DESKTOP, False), ("phone", PHONE, True)):
        for scheme in ("light", "dark"):
            of.size(width, height, phone, 2 if phone else 1)
            of.scheme(scheme)
            of.js("localStorage.clear()")
            of.open(page)
            of.picture(directory / f"{name}-{size}-{scheme}.png", whole=True)


def measure(of, directory):
    """Of a large document: until it stands, and a frame while it is moved and zoomed."""
    page = directory / "large.html"
    page.write_text(assemble(large.document()))
    of.size(*DESKTOP)
    of.open(page)
    check_clean(of, "of the large page")
    times = of.js("""(() => {
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


def run(tandem, *arguments, directory):
    environment = dict(os.environ, TANDEM_NO_CACHE="1", TANDEM_CHECK_BOUNDS="1")
    subprocess.run([tandem, *arguments], check=True, cwd=directory, env=environment, stdout=subprocess.DEVNULL)


def make_pages(tandem, directory):
    """Pages of a network with layers, found just now and read; of one that is rewritten; of a pipeline."""
    model = ["gpt2:layers=6,hidden=64,heads=4,ffn=128,vocab=128,seq=32", "--machine", "dgx_a100:2", "--batch", "64"]
    run(tandem, "plan", *model, "-o", "plan.json", "--report", "found.html", directory=directory)
    run(tandem, "report", "plan.json", "-o", "read.html", "--compare", "2", directory=directory)
    run(tandem, "plan", "bert_large:layers=3", "--machine", "dgx_a100:1", "--dtype", "bf16", "-o", "plan.json",
        "--report", "rewritten.html", directory=directory)
    run(tandem, "simulate", "gpt2:layers=8,seq=128,vocab=512", "--machine", "dgx_a100:1", "--batch", "32", "--strategy",
        "megatron:tp=2,pp=4,micro=8", "--dtype", "bf16", "--grad-dtype", "bf16", "-o", "plan.json", directory=directory)
    run(tandem, "report", "plan.json", "-o", "pipeline.html", directory=directory)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tandem")
    parser.add_argument("--pictures", type=pathlib.Path)
    flags = parser.parse_args()
    path = browser.find()
    if path is None:
        print("skipped: there is no Chromium (package chromium)")
        return 77
    tandem = os.path.abspath(flags.tandem)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        make_pages(tandem, directory)
        of = browser.Browser(path)
        try:
            for page, has_search in (("found", True), ("read", False)):
                of.size(*DESKTOP)
                of.scheme("light")
                of.open(directory / f"{page}.html")
                check_structure(of, has_search)
                expect(f"parallelism of {page}", of.js("document.getElementById('parallelism').innerText.length > 3"))
                expect(f"configurations of {page}", of.js("document.querySelectorAll('#configuration .segments button').length >= 3"))
                check_texts(of, page)
                check_clean(of, f"on opening {page}")
            for page, has_search, check in (("rewritten", True, check_rules), ("pipeline", False, check_pipeline)):
                of.open(directory / f"{page}.html")
                check_structure(of, has_search)
                check(of)
                check_texts(of, page)
                if page == "pipeline":
                    check_configuration(of, tandem)
                check_clean(of, f"of {page}")
                of.size(*DESKTOP)
            of.open(directory / "read.html")
            check_graph(of)
            check_find(of, "l3.scores")
            check_timeline(of)
            check_theme(of)
            check_clean(of, "after all of it")
            of.size(*PHONE, phone=True)
            of.scheme("dark")
            of.open(directory / "found.html")
            expect("a chosen theme is kept", of.js("document.documentElement.dataset.theme"), "light")
            of.js("localStorage.removeItem('tandem-theme')")
            of.open(directory / "found.html")
            expect("the system's theme is taken up", of.js("document.documentElement.dataset.theme"), "dark")
            check_structure(of, True)
            check_clean(of, "on a phone")
            if flags.pictures:
                flags.pictures.mkdir(parents=True, exist_ok=True)
                take_pictures(of, directory / "found.html", flags.pictures, "found")
            measure(of, directory)
        finally:
            of.close()
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
