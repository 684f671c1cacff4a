"""The package ac_advisor, installed: run by cmake/WheelTest.cmake in an environment that holds nothing
else. With AC_ADVISOR it runs from the sources, around that program, in the default tests: all but what
only an installation has. AC_ADVISOR_SOURCE names the checkout."""

import contextlib
import dataclasses
import importlib.resources
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import ac_advisor
from ac_advisor import results

SOURCE = Path(os.environ["AC_ADVISOR_SOURCE"])
of_an_installation = unittest.skipIf("AC_ADVISOR" in os.environ, "not installed")


def properties(schema, *path):
    """Of the object at `path` in docs/schema/: all, and those that are always there."""
    document = json.loads((SOURCE / "docs/schema" / (schema + ".json")).read_text())
    for key in path:
        document = document[key]
    return set(document["properties"]), set(document["required"])


class Plan(unittest.TestCase):
    def test_is_what_the_program_prints(self):
        found = ac_advisor.plan("tiny-llama", batch=2, seq=64, ac="full", param_dtype="fp32")
        printed = subprocess.run(
            [ac_advisor.program(), "plan", "tiny-llama", "--batch", "2", "--seq", "64"]
            + ["--ac", "full", "--param-dtype", "fp32", "--format", "json"],
            capture_output=True,
            check=True,
        )
        self.assertEqual(found.json, json.loads(printed.stdout))
        self.assertEqual(found.config["ac"], "full")
        # fp32, each tensor rounded up to the allocator's 512 bytes
        self.assertAlmostEqual(found.memory.at_peak["parameters"], 4 * found.parameters, delta=4096)
        self.assertEqual(sum(found.memory.at_peak.values()), found.memory.peak_allocated_bytes)
        self.assertIsInstance(found.memory.largest[0], ac_advisor.Tensor)

    def test_a_flag_is_true_and_none_is_left_out(self):
        dropped = ac_advisor.plan("tiny-llama", hold_output=False, ac=None)
        held = ac_advisor.plan("tiny-llama", hold_output=True, framework="torchtitan")
        self.assertFalse(dropped.config["hold_output"])
        self.assertTrue(held.config["hold_output"])
        self.assertEqual(ac_advisor.plan("tiny-llama", as_=None).config["ac"], "none")

    def test_bad_input_is_a_user_error_with_the_programs_words(self):
        with self.assertRaisesRegex(ac_advisor.UserError, "^--batch 0: "):
            ac_advisor.plan("tiny-llama", batch=0)
        with self.assertRaisesRegex(ac_advisor.UserError, "--bacth: unknown option"):
            ac_advisor.plan("tiny-llama", bacth=1)
        for word in ("--help", "--version", "-h", "--output=x"):
            with self.assertRaisesRegex(ac_advisor.UserError, '^"?\\./' + word):
                ac_advisor.plan(word)
            with self.assertRaisesRegex(ac_advisor.UserError, '^"?\\./' + word):
                ac_advisor.compare(word, word)
            with self.assertRaisesRegex(ac_advisor.UserError, word):
                ac_advisor.check(word)
        with self.assertRaisesRegex(TypeError, "result.html"):
            ac_advisor.plan("tiny-llama", format="html")

    def test_a_path_is_a_model(self):
        model = SOURCE / "sample_models/tiny-llama"
        self.assertEqual(ac_advisor.plan(model).memory, ac_advisor.plan("tiny-llama").memory)

    def test_shows_itself_as_the_report(self):
        shown = ac_advisor.plan("tiny-llama")._repr_html_()
        self.assertTrue(shown.startswith("<iframe"))
        self.assertIn("&lt;!doctype html&gt;", shown)
        self.assertNotIn("<script", shown)  # all of it inside the frame


class Advise(unittest.TestCase):
    def test_ranks_and_recommends(self):
        sweep = ac_advisor.advise("tiny-llama", batch=2, seq=64)
        self.assertEqual(len(sweep.rows), sweep.configurations)
        self.assertEqual(sweep.rows[0].rank, 1)
        self.assertIn(sweep.rows[0].label, sweep.recommendation)
        self.assertEqual(sweep.savings[0].technique, "Baseline")
        self.assertIn("&lt;!doctype html&gt;", sweep._repr_html_())
        self.assertIn("|", sweep.markdown())
        self.assertIsNone(sweep.not_simulated)

    def test_tells_how_many_pipelines_it_left_out(self):
        sweep = ac_advisor.advise(
            "llama-3.1-8b", framework="torchtitan", world=8, batch=2, seq=4096, gpu="l40s", tp=1, kernels="eager"
        )
        self.assertGreater(sweep.not_simulated.too_heavy, 0)


class Compare(unittest.TestCase):
    def test_two_profiles_two_sweeps_and_files(self):
        none, full = (ac_advisor.plan("tiny-llama", ac=mode) for mode in ("none", "full"))
        diff = ac_advisor.compare(none, full)
        self.assertEqual([(f.field, f.a, f.b) for f in diff.fields], [("ac", "none", "full")])
        self.assertEqual(
            diff.totals_bytes["peak_allocated"].delta,
            full.memory.peak_allocated_bytes - none.memory.peak_allocated_bytes,
        )
        short, long = (ac_advisor.advise("tiny-llama", seq=seq) for seq in (64, 128))
        self.assertIsInstance(ac_advisor.compare(short, long).rows[0], ac_advisor.RowChange)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "none.json")
            file.write_text(json.dumps(none.json))
            self.assertEqual(ac_advisor.compare(file, file).fields, [])


class Check(unittest.TestCase):
    def test_an_exceeded_limit_is_a_result(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder, "ac-advisor.json")
            limits = {"peak_allocated": {"budget": "1MiB"}}
            case = {"name": "small", "model": "tiny-llama", "limits": limits}
            config.write_text(json.dumps({"schema": "ac-advisor/gate/1", "cases": [case]}))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = ac_advisor.check(config)
        self.assertEqual((found.exit_code, found.failures), (1, 1))
        verdict = found.cases[0].verdicts[0]
        self.assertTrue(verdict.fails)
        self.assertEqual(verdict.limit, 2**20)
        self.assertIn("small", found._repr_html_())
        with self.assertRaises(ac_advisor.UserError):
            ac_advisor.check("/no/such/file")


@unittest.skipUnless(
    (SOURCE / "build/web/ac-advisor.html").is_file()
    or (os.environ.get("CI") == "true" and "AC_ADVISOR" not in os.environ),
    "the page is not built (cmake --preset web)",
)
class Explore(unittest.TestCase):
    def given(self, page):
        start = page.split('<script type="application/json" id="given">', 1)[1]
        return json.loads(start.split("</script>", 1)[0])["start"]

    def test_is_the_page_with_the_configuration_in_it(self):
        found = ac_advisor.explore("tiny-llama", batch=2, ac="full", hold_output=False)
        options = [["--batch", "2"], ["--ac", "full"], ["--no-hold-output", ""]]
        start = self.given(found.html())
        self.assertEqual(start, {"model": {"sample": "tiny-llama"}, "as": "", "options": options})
        shown = found._repr_html_()
        self.assertTrue(shown.startswith("<iframe sandbox="))
        self.assertNotIn("<script", shown)

    def test_takes_files_and_configurations_and_refuses_as_plan_does(self):
        config = json.loads((SOURCE / "sample_models/tiny-llama/config.json").read_text())
        config["name"] = "</script><img src=x>"
        page = ac_advisor.explore(config, as_=None).html()
        self.assertEqual(json.loads(self.given(page)["model"]["text"]), config)
        self.assertNotIn("<img", page)
        file = ac_advisor.explore(SOURCE / "sample_models/tiny-llama").html()
        self.assertEqual(self.given(file)["model"]["name"], "tiny-llama")
        with self.assertRaisesRegex(ac_advisor.UserError, "^--batch 0: "):
            ac_advisor.explore("tiny-llama", batch=0)
        with self.assertRaisesRegex(ac_advisor.UserError, "nor a built-in model"):
            ac_advisor.explore("no-such-model")


class Notebook(unittest.TestCase):
    def test_its_cells_run(self):
        notebook = json.loads((SOURCE / "examples/notebooks/ac_advisor.ipynb").read_text())
        names = {}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for cell in notebook["cells"]:
                lines = "".join(cell["source"]).splitlines()
                if cell["cell_type"] == "code" and not any(line[0] in "%!" for line in lines if line):
                    exec("\n".join(lines), names)
        said = printed.getvalue()
        self.assertRegex(said, r"does_not_fit \d+\.\d of 79\.2 GiB")
        self.assertRegex(said, r"fits \d+\.\d GiB allocated")
        self.assertIn(names["sweep"].recommendation, said)


class Package(unittest.TestCase):
    @of_an_installation
    def test_is_typed_and_has_the_programs_version(self):
        self.assertTrue(importlib.resources.files(ac_advisor).joinpath("py.typed").is_file())
        said = subprocess.run(
            [ac_advisor.program(), "--version"], capture_output=True, text=True, check=True
        )
        self.assertEqual(said.stdout.split()[1], ac_advisor.__version__)

    def test_runs_as_a_module_with_the_programs_exit_codes(self):
        module = [sys.executable, "-m", "ac_advisor"]
        done = subprocess.run([*module, "plan", "tiny-llama"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("tiny-llama", done.stdout)
        self.assertEqual(subprocess.run([*module, "paln"], capture_output=True).returncode, 2)

    @of_an_installation
    def test_its_program_is_the_installed_one_and_needs_the_c_library_alone(self):
        program = Path(ac_advisor.program())
        self.assertEqual(program.parent, Path(sys.executable).parent)
        needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        names = {line.split()[0].split("/")[-1].split(".so")[0] for line in needed.splitlines()}
        self.assertLessEqual(names, {"linux-vdso", "libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"})

    def test_dataclasses_have_the_schemas_fields(self):
        for kind, *place in [
            (results.Profile, "profile-1"),
            (results.Memory, "profile-1", "$defs", "memory"),
            (results.Kernels, "profile-1", "$defs", "kernels"),
            (results.Time, "profile-1", "$defs", "time"),
            (results.Training, "profile-1", "$defs", "training"),
            (results.TrainingKey, "profile-1", "$defs", "training", "properties", "mapping", "items"),
            (results.Fit, "profile-1", "$defs", "fit"),
            (results.Sweep, "sweep-1"),
            (results.Saving, "sweep-1", "properties", "savings", "items"),
            (results.Row, "sweep-1", "properties", "rows", "items"),
            (results.NotSimulated, "sweep-1", "properties", "not_simulated"),
            (results.Diff, "diff-1"),
            (results.SweepDiff, "sweep-diff-1"),
            (results.Side, "sweep-diff-1", "$defs", "side"),
            (results.OutOfMemory, "oom-1"),
            (results.OomError, "oom-1", "$defs", "error"),
            (results.AskedFor, "oom-1", "$defs", "tensor"),
            (results.OomChange, "oom-1", "$defs", "change"),
        ]:
            with self.subTest(kind.__name__):
                known, always = properties(*place)
                fields = {f.name: f for f in dataclasses.fields(kind) if f.name != "json"}
                self.assertLessEqual(known - {"schema"}, set(fields))
                for name in set(fields) - always:
                    has_default = (
                        fields[name].default is not dataclasses.MISSING
                        or fields[name].default_factory is not dataclasses.MISSING
                    )
                    self.assertTrue(has_default, name)


if __name__ == "__main__":
    unittest.main()
