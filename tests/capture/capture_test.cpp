// A configuration without a family, with a script in Python's place: what it is asked, what is
// kept, and every way in which it fails. tests/oracle/captured_peaks.json has real captures.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/capture/capture.hpp"
#include "ac_advisor/dryrun/dryrun.hpp"
#include "ac_advisor/gate/check.hpp"
#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/model/error.hpp"
#include "capture/cache.hpp"
#include "capture/python.hpp"
#include "gate/gate_folder.hpp"
#include "graph/small_graph.hpp"

namespace ac_advisor::test {
namespace {

namespace fs = std::filesystem;

bool has_emulator() {
  try {
    static_cast<void>(dryrun::emulator_folder());
    return true;
  } catch (const UserError& why) {
    MESSAGE("skipped: ", why.what());
    return false;
  }
}

/// Environment variables while one lives.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) {
      const char* old = std::getenv(name.c_str());
      before_[name] = old == nullptr ? std::nullopt : std::optional<std::string>(old);
      set(name, value.empty() ? std::nullopt : std::optional(value));
    }
  }
  ~Variables() {
    for (const auto& [name, value] : before_) set(name, value);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  static void set(const std::string& name, const std::optional<std::string>& value) {
    if (value)
      ::setenv(name.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name.c_str());
  }
  std::map<std::string, std::optional<std::string>> before_;
};

/// A folder with a fake Python, a configuration and a cache. The fake answers what a Python is
/// asked (`-c`), and captures by copying graph.json; it notes both in `calls`.
class Place {
 public:
  Place()
      : variables_({{"XDG_CACHE_HOME", folder_ / "cache"},
                    {"AC_ADVISOR_PYTHON", folder_ / "python"},
                    {"VIRTUAL_ENV", ""},
                    {"PATH", "/usr/bin:/bin"}}) {
    script("{\"torch\": \"2.11.0\", \"transformers\": \"5.23.0\", \"folders\": [\"" +
               folder_ / "packages" + "\", \"" + folder_ / "packages" + "\"]}",
           "cp \"$here/graph.json\" \"$last\"");
    fs::create_directories(folder_ / "packages");
    folder_.write("config.json", R"({"model_type": "codegen", "n_embd": 64})");
    folder_.write("graph.json", small_graph().dump());
  }

  void script(const std::string& answer, const std::string& captures) {
    folder_.write("python", "#!/bin/sh\nhere=" + std::string(folder_ / "") +
                                "\nif [ \"$1\" = -c ]; then\n  echo probe >> \"$here/calls\"\n"
                                "  echo '" +
                                answer +
                                "' > \"$3\"\n  exit 0\nfi\n"
                                "echo \"$@\" >> \"$here/calls\"\nfor last; do :; done\n" +
                                captures + "\n");
    fs::permissions(folder_ / "python", fs::perms::owner_all);
  }

  model::ModelSpec load(OptionList options = {}, capture::Settings settings = {}) {
    for (const auto& [name, value] : {std::pair{"--batch", "2"}, {"--seq", "16"}})
      if (!given(options, name)) options.emplace_back(name, value);
    settings.tell = [this](const std::string& line) { told += line + "\n"; };
    return capture::load_model(folder_ / "config.json", "", options, settings);
  }
  std::string error(OptionList options = {}, capture::Settings settings = {}) {
    try {
      static_cast<void>(load(std::move(options), std::move(settings)));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  [[nodiscard]] std::string calls() const { return folder_.read("calls"); }
  /// Files of the cache's folder of graphs; those of a capture that failed too.
  [[nodiscard]] std::size_t kept() const {
    std::error_code error;
    std::size_t count = 0;
    const fs::path graphs = folder_ / "cache/ac-advisor/graphs";
    for (auto entry = fs::recursive_directory_iterator(graphs, error);
         !error && entry != end(entry); ++entry)
      ++count;
    return count;
  }

  GateFolder folder_;
  std::string told;

 private:
  Variables variables_;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("a type without a family is captured once, and afterwards read from the cache") {
  if (!has_emulator()) return;
  Place place;
  const model::ModelSpec first = place.load();
  REQUIRE(first.graph);
  CHECK(first.graph->parameters.size() == 2);
  CHECK(first.name == fs::path(place.folder_ / "").parent_path().filename().string());
  CHECK(contains(first.graph->captured, "transformers 5.23.0 and PyTorch 2.11.0"));
  CHECK(contains(first.graph->captured, "at 2 x 16 in bf16, captured in "));
  CHECK(contains(place.told, "captured in "));
  const std::string calls = place.calls();
  CHECK(calls.starts_with("probe\n-m ac_advisor.capture --config /"));
  CHECK(contains(calls, " --batch 2 --seq 16 --dtype bf16 --output /"));
  CHECK(place.kept() == 2);  // the graph, and what it was made of

  const model::ModelSpec second = place.load();
  CHECK(place.calls() == calls);
  CHECK(second.graph->digest == first.graph->digest);
  CHECK(second.graph->captured == first.graph->captured);

  const profile::Profile planned =
      advise::plan(second, advise::resolve(second, {{"--ac", "full"}}).config);
  CHECK(std::count(planned.assumptions.begin(), planned.assumptions.end(), first.graph->captured) ==
        1);
}

TEST_CASE("another size, dtype, GPU, version or configuration is another capture") {
  if (!has_emulator()) return;
  Place place;
  static_cast<void>(place.load());
  CHECK(place.kept() == 2);
  Json other = small_graph();
  other["batch"] = 3;
  place.folder_.write("graph.json", other.dump());
  CHECK(place.load({{"--batch", "3"}}).graph->batch == 3);
  static_cast<void>(place.load({{"--param-dtype", "fp32"}, {"--compute-dtype", "fp32"}}));
  CHECK(contains(place.calls(), "--dtype fp32"));
  static_cast<void>(place.load({{"--gpu", "h200"}}));
  place.folder_.write("config.json", R"({"model_type": "codegen", "n_embd": 128})");
  static_cast<void>(place.load());
  CHECK(place.kept() == 10);
  CHECK(lines(place.calls()) == 6);  // a probe and five captures

  // pip has installed something: the Python is asked again.
  place.script("{\"torch\": \"2.11.0\", \"transformers\": \"5.24.0\", \"folders\": [\"" +
                   place.folder_ / "packages" + "\", \"" + place.folder_ / "packages" + "\"]}",
               "cp \"$here/graph.json\" \"$last\"");
  fs::last_write_time(place.folder_ / "packages",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  CHECK(contains(place.load().graph->captured, "transformers 5.24.0"));
  CHECK(lines(place.calls()) == 8);
}

TEST_CASE("a capture that fails is told by its exception's line, and leaves nothing") {
  if (!has_emulator()) return;
  Place place;
  const std::string answer = "{\"torch\": \"2.11.0\", \"transformers\": \"5.23.0\"}";
  place.script(answer,
               "echo 'Traceback (most recent call last):' >&2\n"
               "echo 'ValueError: n_embd 64 is wrong' >&2\nexit 1");
  const std::string error = place.error();
  CHECK(contains(error, "config.json: \"model_type\": \"codegen\" has no family here"));
  CHECK(contains(error, "its capture failed (exit code 1): ValueError: n_embd 64 is wrong; "));
  CHECK(contains(error, "ac-advisor import --gpu h100-80gb -- "));
  CHECK(place.kept() == 0);

  // Messages of several lines, the first of which may be empty, and warnings that follow.
  const auto failing = [&](const std::string& ending) {
    place.script(answer,
                 "cat >&2 <<'EOF'\nTraceback (most recent call last):\n  File \"a.py\", line 1, in "
                 "<module>\n    torch.empty(None)\n    ~~~~~~~~~~~^^^^^^\n" +
                     ending + "\nEOF\nexit 1");
    return place.error();
  };
  CHECK(contains(failing("TypeError: empty() got one of:\n * (tuple of ints size)\nwarning: left"),
                 "(exit code 1): TypeError: empty() got one of: * (tuple of ints size); all that"));
  CHECK(contains(failing("ImportError: \nA requires timm: `pip\ninstall timm`."),
                 "(exit code 1): ImportError: A requires timm: `pip; all that"));
  CHECK(contains(failing("KeyError: 'full_attention'"), "): KeyError: 'full_attention'; all that"));
  CHECK(contains(failing("KeyError:"), "): KeyError:; all that"));

  place.script(answer, "head -c 100 \"$here/graph.json\" > \"$last\"");  // half of a file
  CHECK(contains(place.error(), ".graph.json: line 1"));
  CHECK(place.kept() == 0);
  place.script(answer, "echo \"ac-advisor: $4: it has no loss\" >&2\nexit 2");
  CHECK(place.error().ends_with("; it has no loss"));
  CHECK(place.kept() == 0);
  place.script(answer, "exit 0");  // without a graph
  CHECK(contains(place.error(), "its capture failed (exit code 0): it said nothing"));
  CHECK(place.kept() == 0);
}

TEST_CASE("what the cache has is made again where it cannot be read") {
  if (!has_emulator()) return;
  Place place;
  static_cast<void>(place.load());
  for (const auto& entry : fs::directory_iterator(place.folder_ / "cache/ac-advisor/graphs"))
    std::ofstream(entry.path()) << "{";
  CHECK(place.load().graph);
  CHECK(lines(place.calls()) == 3);  // a probe, and two captures
}

TEST_CASE("without a Python that can capture, the error ends with the command that makes one") {
  Place place;
  const std::string command = capture::how_to_make_one();
  CHECK(
      command.starts_with("python3 -m venv " + place.folder_ / "cache/ac-advisor/python-2.11 && "));
  const auto ends_with_it = [&](const std::string& error) {
    CHECK(error.starts_with(place.folder_ /
                            "config.json: \"model_type\": \"codegen\" has no family here"));
    CHECK(error.ends_with(command));
  };
  place.script("{\"torch\": \"2.11.0\", \"folders\": []}", "exit 1");
  std::string error = place.error();
  CHECK(contains(error, "AC_ADVISOR_PYTHON " + place.folder_ / "python has no transformers; "));
  ends_with_it(error);
  place.script("not JSON", "exit 1");
  ends_with_it(error = place.error());
  CHECK(contains(error, "does not run as Python"));
  error = place.error({}, {capture::When::automatic, "/no/such/python", {}});
  CHECK(contains(error, "--python /no/such/python is not there; "));
  ends_with_it(error);
  {
    const Variables none({{"AC_ADVISOR_PYTHON", ""}, {"PATH", place.folder_ / "nothing"}});
    ends_with_it(error = place.error());
    CHECK(contains(error, "no Python with torch and transformers was found; make one: "));
  }
  {
    fs::create_directories(place.folder_ / "venv/bin");
    fs::create_symlink(place.folder_ / "python", place.folder_ / "venv/bin/python");
    const Variables active({{"AC_ADVISOR_PYTHON", ""},
                            {"VIRTUAL_ENV", place.folder_ / "venv"},
                            {"PATH", place.folder_ / "nothing"}});
    ends_with_it(error = place.error());
    CHECK(contains(error, "VIRTUAL_ENV " + place.folder_ / "venv does not run as Python"));
  }
  CHECK(place.kept() == 0);
}

TEST_CASE("neither --capture never nor options that no graph takes ask a Python") {
  Place place;
  const std::string never = place.error({}, {capture::When::never, "", {}});
  CHECK(contains(never, "\"model_type\": \"codegen\" is not planned yet (planned: "));
  CHECK(contains(never, "capture it with transformers"));
  CHECK(contains(place.error({{"--lora", "8"}}), "--lora"));
  CHECK(contains(place.error({{"--tp", "2"}, {"--world", "2"}}), "--tp"));
  CHECK(contains(place.error({{"--gpu", "cpu"}}), "--gpu cpu"));
  CHECK(place.calls().empty());
}

TEST_CASE("how many blocks a captured model has is known once it is captured") {
  if (!has_emulator()) return;
  Place place;
  CHECK(place.load({{"--ac", "every:2"}}).graph->blocks.size() == 2);
  CHECK(lines(place.calls()) == 2);  // a probe, and the capture
}

TEST_CASE("a known family is captured where that is asked for always") {
  if (!has_emulator()) return;
  Place place;
  place.folder_.write(
      "config.json",
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 128})");
  CHECK_FALSE(place.load().graph);
  CHECK(place.load({}, {capture::When::always, "", {}}).graph);
}

TEST_CASE("a wrapper whose encoder is not planned is captured with text alone, which is told") {
  if (!has_emulator()) return;
  Place place;
  place.folder_.write("config.json",
                      R"({"model_type": "got_ocr2", "text_config": {"model_type": "qwen2"}})");
  Json graph = small_graph();
  graph["made_by"]["given"] = "input_ids and labels";
  place.folder_.write("graph.json", graph.dump());
  const model::ModelSpec spec = place.load();
  REQUIRE(spec.graph);
  CHECK(contains(spec.graph->captured, "at 2 x 16 in bf16 of input_ids and labels, captured in "));
  const std::string never = place.error({}, {capture::When::never, "", {}});
  CHECK(contains(never, "wraps its text model with encoders that are not planned"));
  CHECK(contains(never, "(--capture auto)"));
  place.script("{\"torch\": \"2.11.0\", \"transformers\": \"5.23.0\"}", "exit 1");
  const std::string error = place.error({{"--seq", "32"}});
  CHECK(
      contains(error, "\"model_type\": \"got_ocr2\" has no family here; it wraps its text model"));
  CHECK(contains(error, "save the object \"text_config\""));
  CHECK(contains(error, "its capture failed (exit code 1)"));
}

TEST_CASE("a case of the gate is captured too") {
  if (!has_emulator()) return;
  Place place;
  const Json limits{{"peak_allocated", {{"budget", "1GiB"}}}};
  const auto one = [&](const char* name) {
    return Json{{"name", name},
                {"model", "config.json"},
                {"options", {{"batch", 2}, {"seq", 16}}},
                {"limits", limits}};
  };
  place.folder_.write_gate(
      {{"schema", gate::gate_schema}, {"baselines", "baselines"}, {"cases", {one("a"), one("b")}}});
  const gate::Report report = place.folder_.check();
  CHECK(gate::exit_code(report) == 0);
  CHECK(lines(place.calls()) == 2);  // a probe, and one capture for both
}

}  // namespace ac_advisor::test
