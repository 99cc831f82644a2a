"""Tests of the Python package that tests/python/run installs."""

import importlib.util
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import tandem

MACHINE_FILES = pathlib.Path(__file__).resolve().parent.parent.parent / "machines"


def build_small_graph():
    """Returns a graph of one layer with ReLU, and a loss."""
    b = tandem.GraphBuilder("small")
    x = b.input("x", [32, 64])
    h = b.linear(x, b.weight("w", [16, 64]), act="relu", name="h")
    return b.finish(b.mse(h, b.input("target", [32, 16])))


class Graphs(unittest.TestCase):
    def test_nodes_have_their_operands_and_attributes(self):
        graph = build_small_graph()
        h = next(node for node in graph.nodes if node.name == "h")
        self.assertEqual((h.op, h.inputs, h.shape, h.dtype), ("linear", ["x", "w"], (32, 16), "fp32"))
        self.assertEqual(h.attributes, {"act": "relu"})
        self.assertEqual((graph.batch, graph.parameters, len(graph)), (32, 16 * 64, 5))
        self.assertEqual([node.name for node in graph.weights], ["w"])

    def test_text_and_json_parse_back(self):
        graph = build_small_graph()
        self.assertEqual(tandem.Graph.parse(graph.to_text()), graph)
        self.assertEqual(tandem.Graph.parse(graph.to_json()), graph)

    def test_graph_survives_saving_and_loading(self):
        graph = build_small_graph()
        with tempfile.TemporaryDirectory() as directory:
            for name in ("a.graph", "a.json"):
                path = pathlib.Path(directory, name)
                graph.save(path)
                self.assertEqual(tandem.Graph.load(path), graph)
                self.assertEqual(tandem.load(path).graph(32), graph)

    def test_text_attributes_are_quoted(self):
        b = tandem.GraphBuilder("contraction")
        x, y = b.input("x", [2, 3]), b.input("y", [3, 4])
        z = b.contract(x, y, index="a b, b c -> a c")
        self.assertEqual(z.shape, (2, 4))

    def test_illegal_nodes_raise(self):
        b = tandem.GraphBuilder("wrong")
        x = b.input("x", [2, 3])
        with self.assertRaisesRegex(tandem.Error, "linear") as caught:
            b.linear(x, b.weight("w", [4, 5]))
        self.assertEqual(caught.exception.kind, "graph")
        with self.assertRaisesRegex(tandem.Error, "has no attribute 'colour'"):
            b.relu(x, colour="red")
        with self.assertRaisesRegex(tandem.Error, "is not a node of this graph"):
            b.relu("y")
        with self.assertRaises(AttributeError):
            b.rectify(x)

    def test_evaluate_agrees_with_numpy(self):
        graph = build_small_graph()
        random = np.random.default_rng(1)
        x, w, target = random.normal(size=(32, 64)), random.normal(size=(16, 64)), np.zeros((32, 16))
        found = graph.evaluate({"x": x, "w": w, "target": target}, wanted=["h", *graph.outputs])
        h = np.maximum(x @ w.T, 0)
        np.testing.assert_allclose(found["h"], h, atol=1e-12)
        np.testing.assert_allclose(found[graph.outputs[0]], np.mean((h - target) ** 2))

    def test_evaluate_draws_missing_values(self):
        graph = build_small_graph()
        one, same, other = (graph.evaluate(seed=seed)[graph.outputs[0]] for seed in (1, 1, 2))
        self.assertEqual(one, same)
        self.assertNotEqual(one, other)

    def test_evaluate_rejects_wrong_values(self):
        graph = build_small_graph()
        for values, message in (
            (
                {"x": np.zeros((3, 64))},
                r"x: is given with shape \[3, 64\], but the node has shape \[32, 64\]",
            ),
            ({"x": np.zeros([1] * 12)}, "is given with shape"),
            ({"y": 1}, "is not an input or weight of small"),
            ({"h": np.zeros((32, 16))}, "is computed"),
        ):
            with self.subTest(message), self.assertRaisesRegex(tandem.Error, message):
                graph.evaluate(values)
        with self.assertRaisesRegex(tandem.Error, "is not a node of small"):
            graph.evaluate(wanted=["z"])

    def test_indices_are_checked(self):
        b = tandem.GraphBuilder("table")
        i = b.input("i", [4], dtype="int64", below=10)
        graph = b.finish(b.embedding(i, b.weight("t", [10, 2]), name="rows"))
        table = np.arange(20.0).reshape(10, 2)
        rows = graph.evaluate({"i": [3, 0, 9, 3], "t": table})["rows"]
        np.testing.assert_array_equal(rows, table[[3, 0, 9, 3]])
        for wrong in ([0, 1, 2, 10], [0, 1, 2, -1], [0, 1, 2, 0.5], [0, 1, 2, np.nan]):
            with self.assertRaisesRegex(tandem.Error, "integers from 0 to 9"):
                graph.evaluate({"i": wrong})


class Models(unittest.TestCase):
    def test_models_are_listed(self):
        names = [model["name"] for model in tandem.models()]
        self.assertIn("gpt2", names)

    def test_hyperparameters_change_the_model(self):
        model = tandem.model("mlp", layers=2, hidden=8, inputs=4, outputs=3)
        self.assertEqual(model.text, "mlp:layers=2,hidden=8,inputs=4,outputs=3")
        self.assertEqual(model.parameters, 4 * 8 + 8 * 3)
        self.assertEqual(model.graph(6).batch, 6)
        self.assertEqual(model.figures(batch=6)["batch"], 6)
        self.assertEqual(tandem.model("mlp:layers=2", hidden=8).text, "mlp:layers=2,hidden=8")

    def test_errors_suggest_names(self):
        with self.assertRaisesRegex(tandem.Error, "mlp") as caught:
            tandem.model("mpl")
        self.assertTrue(caught.exception.hint)
        with self.assertRaisesRegex(tandem.Error, "cannot be read"):
            tandem.from_onnx("there_is_none.onnx")
        with self.assertRaisesRegex(tandem.Error, "dtype"):
            tandem.model("mlp").graph(dtype="int3")


class Machines(unittest.TestCase):
    def test_built_in_machines_exist(self):
        machine = tandem.machine("summit:8")
        self.assertEqual((machine.devices, machine.memory), (48, 15_000_000_000))
        self.assertEqual([level["name"] for level in machine.levels], ["node", "socket", "gpu"])
        self.assertIn("summit", [m["name"] for m in tandem.machines()])

    def test_text_is_parsed(self):
        text = (MACHINE_FILES / "summit.machine").read_text()
        machine = tandem.Machine.parse(text, size=2)
        self.assertEqual(machine.devices, 12)
        self.assertEqual(
            tandem.simulate("mlp", machine).time, tandem.simulate("mlp", "summit:2").time
        )

    def test_unknown_machines_raise(self):
        with self.assertRaises(tandem.Error):
            tandem.machine("sumit:8")


class Plans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plan = tandem.plan("mlp:layers=4", "summit:2", batch=512)

    def test_lower_bound_is_below_the_plan(self):
        plan = tandem.plan("mlp", "summit:8")
        self.assertGreater(plan.lower_bound, 0)
        self.assertGreaterEqual(plan.time, plan.lower_bound)

    def test_figures_are_consistent(self):
        plan = self.plan
        self.assertAlmostEqual(plan.time, plan.compute + plan.exposed_communication + plan.idle)
        self.assertAlmostEqual(plan.throughput, 512 / plan.time)
        self.assertEqual((plan.batch, plan.devices, plan.stop_reason), (512, 12, "done"))
        best = min(b.time for b in plan.baselines if b.feasible)
        self.assertAlmostEqual(plan.speedup, best / plan.time)
        self.assertEqual(plan.to_dict()["memory_bytes"], plan.memory)

    def test_repr_has_units(self):
        self.assertRegex(repr(self.plan), r"^<Plan \S+: [\d.]+ (us|ms), [\d.]+k? samples/s, [\d.]+ (MB|GB)>$")

    def test_plan_survives_saving_and_loading(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "plan.json")
            self.plan.save(path)
            loaded = tandem.load_plan(path)
            self.assertEqual(loaded.time, self.plan.time)
            self.assertEqual(loaded.text, self.plan.text)
            self.assertTrue(tandem.check(path))

    def test_simulation_agrees_with_the_plan(self):
        self.assertEqual(tandem.simulate(self.plan).time, self.plan.time)

    def test_check_finds_wrong_plans(self):
        found = tandem.check(self.plan)
        self.assertTrue(found.ok)
        self.assertGreater(found["values_checked"], 0)
        document = json.loads(self.plan.text)
        document["graph"] = document["graph"].replace("relu", "gelu")
        wrong = tandem.check(tandem.Plan({}, json.dumps(document)))
        self.assertFalse(wrong)
        self.assertTrue(wrong.message)

    def test_plan_is_explained_and_reported(self):
        self.assertIn("model", self.plan.explain())
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "plan.html")
            self.plan.report(path)
            self.assertIn("<html", path.read_text())

    def test_graph_is_planned(self):
        plan = tandem.plan(build_small_graph(), "local:2")
        self.assertEqual(plan.batch, 32)
        self.assertTrue(tandem.check(plan))

    def test_plan_that_does_not_fit_raises(self):
        with self.assertRaises(tandem.DoesNotFit) as caught:
            tandem.plan("mlp:layers=4", "summit:1", memory="1MB")
        self.assertGreater(caught.exception.over, 0)
        self.assertTrue(caught.exception.smallest_change)
        self.assertEqual(caught.exception.stop_reason, "done")
        self.assertIsInstance(pickle.loads(pickle.dumps(caught.exception)), tandem.DoesNotFit)

    def test_flags_are_passed_on(self):
        plan = tandem.plan(
            "mlp:layers=4", "summit:1", dims=["data"], pipeline=False, optimizer="adam", max_candidates=3
        )
        self.assertEqual(plan["optimizer"], "adam")
        with self.assertRaisesRegex(tandem.Error, "there is no dimension 'time'"):
            tandem.plan("mlp", "summit:1", dims=["time"])
        with self.assertRaisesRegex(tandem.Error, "--optimizer"):
            tandem.plan("mlp", "summit:1", optimizer="lion")


class Simulations(unittest.TestCase):
    def test_simulation_has_the_values_of_the_command(self):
        found = tandem.simulate("gpt2", "dgx_a100:1", strategy="megatron:tp=8,dp=1", dtype="bf16")
        self.assertEqual(found.strategy, "megatron:tp=8,dp=1")
        self.assertGreater(found.serialized["all_reduce"], 0)
        self.assertTrue(found.feasible)

    def test_strategy_that_does_not_fit_does_not_raise(self):
        found = tandem.simulate("llama3_70b", "dgx_a100:1", batch=8)
        self.assertFalse(found.feasible)
        self.assertIsNone(found.fitting)

    def test_fitting_strategy_is_suggested(self):
        found = tandem.simulate("gpt2", "dgx_a100:1", strategy="dp", batch=1024)
        self.assertFalse(found.feasible)
        changed = tandem.simulate("gpt2", "dgx_a100:1", strategy=found.fitting["strategy"], batch=1024)
        self.assertTrue(changed.feasible)
        self.assertIsNone(changed.fitting)

    def test_model_needs_a_machine(self):
        with self.assertRaisesRegex(tandem.Error, "--machine"):
            tandem.simulate("mlp")


class Explorations(unittest.TestCase):
    def test_pareto_front_is_not_dominated(self):
        found = tandem.explore("mlp:layers=4", "summit:1", strategies="baselines")
        time, memory = found.column("iteration_s"), found.column("memory_bytes")
        fits = found.column("feasible")
        for best in found.pareto:
            better = fits & (time <= best.time) & (memory <= best.memory)
            better &= (time < best.time) | (memory < best.memory)
            self.assertFalse(better.any(), best)
        self.assertEqual(len(found), len(found.points))

    def test_all_combinations_are_cases(self):
        found = tandem.explore(
            "mlp:layers=4",
            [tandem.machine("summit:1"), "summit:2"],
            strategies=["dp", "fsdp"],
            scale=["none", "inter=10"],
            vary={"batch": [96, 192]},
        )
        self.assertEqual(len(found.cases), 2 * 2 * 2)
        self.assertEqual({point.batch for point in found.points}, {96, 192})


class Calls(unittest.TestCase):
    LONG = ("nasnet_a", "summit:16")

    def test_other_threads_run_during_a_call(self):
        iterations, done = 0, threading.Event()

        def count():
            nonlocal iterations
            while not done.is_set():
                iterations += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        tandem.plan("bert_large", "summit:2", budget=5)
        done.set()
        thread.join()
        self.assertGreater(iterations, 100)

    def test_waiting_call_is_interrupted(self):
        # The second call waits for the first one. Ctrl-C ends it before it runs, and the first call continues.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        plans = []
        other = threading.Thread(target=lambda: plans.append(tandem.plan("nasnet_a", "summit:32", threads=1)))
        other.start()
        time.sleep(0.2)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            tandem.simulate("mlp", "summit:2")
        other.join()
        self.assertEqual(len(plans), 1)

    def test_concurrent_calls_all_end(self):
        times = []
        threads = [
            threading.Thread(target=lambda n=n: times.append(tandem.simulate("mlp", f"summit:{n}").time))
            for n in (1, 2, 4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(times)), 3)

    def assert_control_c_ends(self, call):
        # Background processes of a shell ignore SIGINT.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        pressed = []

        def press():
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.3, press)
        timer.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                call()
        finally:
            ended = time.monotonic()
            timer.cancel()  # if the call ended before the timer
            timer.join()
        self.assertLess(ended - pressed[0], 3)
        # The next call works.
        self.assertGreater(tandem.simulate("mlp", "summit:1").time, 0)

    def test_control_c_ends_a_search(self):
        self.assert_control_c_ends(lambda: tandem.plan(*self.LONG))

    def test_control_c_ends_a_simulation(self):
        self.assert_control_c_ends(
            lambda: tandem.simulate(
                "gpt3_175b", "dgx_a100:96", strategy="megatron:tp=8,pp=96,micro=4096", batch=4096, exact=True
            )
        )

    def test_control_c_ends_an_exploration(self):
        self.assert_control_c_ends(lambda: tandem.explore("nasnet_a", "summit:16"))

    def test_control_c_ends_a_check(self):
        plan = tandem.plan("inception_v3", "summit:8")
        self.assert_control_c_ends(lambda: tandem.check(plan))

    def test_control_c_ends_an_evaluation(self):
        b = tandem.GraphBuilder("large")
        x = b.input("x", [512, 512])
        for i in range(8):
            x = b.linear(x, b.weight(f"w{i}", [512, 512]))
        graph = b.finish(b.mse(x, b.input("target", [512, 512])))
        self.assert_control_c_ends(graph.evaluate)

    def test_progress_is_reported(self):
        lines = []
        tandem.plan("bert_large", "summit:2", budget=5, progress=lines.append)
        self.assertTrue(any("searching" in line for line in lines), lines)

    def test_exception_in_progress_ends_a_call(self):
        def fail(line):
            raise ZeroDivisionError(line)

        with self.assertRaises(ZeroDivisionError):
            tandem.plan(*self.LONG, progress=fail)

    def test_nothing_is_printed(self):
        code = "import tandem; tandem.plan('mlp:layers=4', 'summit:1')"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        self.assertEqual(run.stdout + run.stderr, b"")

    def test_torch_is_not_imported(self):
        code = "import sys, tandem; print('torch' in sys.modules)"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
        self.assertEqual(run.stdout, "False\n")

    def test_every_command_runs(self):
        self.assertEqual(tandem.command("ops", "relu")[0]["name"], "relu")
        with self.assertRaises(tandem.Error):
            tandem.command("no-such-command")


try:
    import torch
except ImportError:
    torch = None


class Examples(unittest.TestCase):
    def test_examples_run(self):
        for script in sorted((MACHINE_FILES.parent / "examples" / "python").glob("*.py")):
            if "matplotlib" in script.read_text() and importlib.util.find_spec("matplotlib") is None:
                continue
            with self.subTest(script.name), tempfile.TemporaryDirectory() as directory:
                done = subprocess.run([sys.executable, script], cwd=directory, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)


@unittest.skipIf(torch is None, "there is no torch")
class FromTorch(unittest.TestCase):
    def build_module(self):
        return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))

    def test_module_is_planned(self):
        module = self.build_module()
        model = tandem.from_torch(module, torch.zeros(4, 64))
        self.assertEqual(model.parameters, sum(p.numel() for p in module.parameters()))
        self.assertEqual(model.graph(batch=12).batch, 12)
        plan = tandem.plan(model, "local:2", batch=32)
        self.assertEqual(plan.batch, 32)
        self.assertTrue(tandem.check(plan))

    def test_arrays_are_accepted_and_files_remain(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "net.onnx")
            tandem.from_torch(self.build_module(), np.zeros((4, 64), np.float32), path=path)
            self.assertEqual(tandem.from_onnx(path).graph(3).batch, 3)

    def test_unsupported_module_raises(self):
        class Wrong(torch.nn.Module):
            def forward(self, x):
                return torch.linalg.eigvals(x)

        with self.assertRaises(tandem.Error):
            tandem.from_torch(Wrong(), torch.zeros(4, 4))


if __name__ == "__main__":
    unittest.main()
