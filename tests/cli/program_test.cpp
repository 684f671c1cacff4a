// The program as a user runs it: exit codes, what goes to stdout and what to stderr.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "ac_advisor/model/option_table.hpp"
#include "shell.hpp"
#include "test_paths.hpp"

using ac_advisor::test::Ran;

namespace {

/// Through a shell; only what the command leaves on stdout is kept.
Ran run(const std::string& arguments, const std::string& environment = "") {
  return ac_advisor::test::shell(environment + " " + std::string(ac_advisor::test::program) + " " +
                                 arguments);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::filesystem::path scratch(const char* name) {
  return std::filesystem::path(ac_advisor::test::binary_dir) / name;
}

}  // namespace

TEST_CASE("exit codes: 0 done, 2 what the user can mend") {
  CHECK(run("--version").code == 0);
  CHECK(run("plan tiny-llama").code == 0);
  for (const char* bad :
       {"plan", "paln tiny-llama", "plan no-such-model", "plan tiny-llama --bacth 8",
        "plan tiny-llama --batch 0", "plan tiny-llama --ac grouped:0",
        "plan tiny-llama --world 3 --shard hsdp:2",
        "plan tiny-llama --kernels compiled --dropout 0.1", "explain tiny-llama --format html",
        "report", "report /no/such/file", "trace ls", "plan tiny-llama --output /no/such/folder/f",
        "compare tiny-llama tiny-llama", "plan tiny-llama > /dev/full",
        "explain tiny-llama --schedule --format json", "explain tiny-llama --program --format md",
        "explain tiny-llama --passes --format json", "explain tiny-llama --passes --program"}) {
    CAPTURE(bad);
    const bool redirected = contains(bad, ">");
    const Ran result = run(std::string(bad) + (redirected ? " 2>/dev/null" : " 2>&1"));
    CHECK(result.code == 2);
    if (!redirected) CHECK(contains(result.out, "ac-advisor: "));
  }
}

TEST_CASE("data goes to stdout, messages to stderr") {
  CHECK(run("plan no-such-model 2>/dev/null").out.empty());
  CHECK(run("plan tiny-llama --format json 2>&1 1>/dev/null").out.empty());
  // JSON has no comments: the notes must not be in it.
  const Ran result = run("export tiny-llama --to deepspeed --world 2 --shard zero2 2>/dev/null");
  CHECK(result.code == 0);
  CHECK(result.out.front() == '{');
  CHECK_FALSE(contains(result.out, "note:"));
}

TEST_CASE("completion offers the first device, the first sample and the frameworks") {
  const std::string program(ac_advisor::test::program);
  const std::filesystem::path folder = std::filesystem::path(program).parent_path();
  const std::string script = scratch("completion.bash").string();
  REQUIRE(run("generate bash --output " + script).code == 0);
  const auto offered = [&](const std::string& words) {
    return run("version > /dev/null; PATH=" + folder.string() + ":$PATH bash -c '. " + script +
               "; COMP_WORDS=(ac-advisor " + words +
               " \"\"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ac_advisor; echo ${COMPREPLY[@]}'")
        .out;
  };
  CHECK(contains(offered("plan --gpu"), "a100-40gb"));
  CHECK(contains(offered("plan --framework"), "hf-trainer"));
  CHECK(contains(offered("plan"), "gemma-2-2b"));
  CHECK(contains(offered("plan"), "Qwen/Qwen3-8B"));
}

TEST_CASE("models lists what is built in, 80 columns wide, or what has a word in its name") {
  std::istringstream all(run("models").out);
  std::size_t widest = 0;
  for (std::string line; std::getline(all, line);) widest = std::max(widest, line.size());
  CHECK(widest <= 80);
  CHECK(contains(all.str(), "\nQwen/ "));
  CHECK(contains(all.str(), " Qwen2.5-7B-Instruct"));
  const std::string some = run("models QWEN3-0.6").out;
  CHECK(some.starts_with("qwen3-0.6b "));
  CHECK(contains(some, "\nQwen/Qwen3-0.6B "));
  CHECK(contains(some, " 596049920 parameters\n"));
  CHECK_FALSE(contains(some, "gemma"));
  const Ran none = run("models nonesuch 2>&1");
  CHECK(none.code == 2);
  CHECK(contains(none.out, "models nonesuch: no built-in model has this in its name"));
}

TEST_CASE("an id of the Hub is planned, and told to be built in: in the table, or on stderr") {
  const std::string plan = "plan Qwen/Qwen3-0.6B --batch 1 --seq 128";
  const std::string told = "built-in ones of Qwen/Qwen3-0.6B";
  CHECK(contains(run(plan + " | tr -s '\\n ' ' '").out, told));
  CHECK_FALSE(contains(run(plan + " 2>&1 1>/dev/null").out, told));
  CHECK(contains(run(plan + " --format csv 2>&1 1>/dev/null").out, told));
  const auto peak = [](const std::string& model) {
    const std::string csv = run("plan " + model + " --batch 1 --seq 128 --format csv").out;
    return csv.substr(csv.find(',', csv.find('\n')));  // without its name
  };
  CHECK(peak("Qwen/Qwen3-0.6B") == peak("qwen3-0.6b"));
}

TEST_CASE("a GPU is found by the name that its driver prints, and by its memory") {
  for (const char* name : {"RTX 4090", "NVIDIA GeForce RTX 4090", "rtx_4090", "Rtx-4090"})
    CHECK(contains(run("plan tiny-llama --format csv --gpu '" + std::string(name) + "'").out,
                   ",rtx-4090,"));
  const std::string by_size = run("plan tiny-llama --gpu 24GiB | tr -s '\\n ' ' '").out;
  CHECK(contains(by_size, "24gib is no card: memory of that size with the rates"));
  CHECK(contains(by_size, "of rtx-4090; --gpu 24gib@NAME takes another's"));
  CHECK(contains(run("plan tiny-llama --gpu 24GiB@L4 | tr -s '\\n ' ' '").out, "of l4; --gpu"));
}

TEST_CASE("frameworks lists each preset with what it assumes of dtypes and loss") {
  const std::string text = run("frameworks").out;
  for (const char* name : {"hf ", "hf-trainer", "trl", "torchtitan", "deepspeed"})
    CHECK(contains(text, name));
  const std::size_t trainer = text.find("hf-trainer");
  CHECK(text.find("fp32 weights, bf16 autocast; loss ce", trainer) < text.find("\nliger", trainer));
}

TEST_CASE("export --to trl is hf's arguments with TRL's preset") {
  const std::string rest = " tiny-llama --ac full 2>/dev/null";
  CHECK(run("export --to trl" + rest).out == run("export --to hf --framework trl" + rest).out);
}

TEST_CASE("standard input is a MODEL, and - is stdout") {
  const std::string sample =
      std::string(ac_advisor::test::source_dir) + "/sample_models/tiny-llama/config.json";
  const Ran read = run("plan - --format csv < " + sample);
  CHECK(read.code == 0);
  CHECK(contains(read.out, "stdin"));
  CHECK(run("plan tiny-llama --format csv --output -").out ==
        run("plan tiny-llama --format csv").out);
  CHECK(contains(run("plan - < /dev/null 2>&1").out, "standard input: the file is empty"));
  CHECK(contains(run("measure - < " + sample + " 2>&1").out, "measure -: the trainer reads"));
  CHECK(contains(run("trace --output - -- true 2>&1").out, "stdout is the traced program's"));
  CHECK(contains(run("calibrate --output - 2>&1").out, "--gpu reads a device file; name one"));
}

TEST_CASE("what --as ignores is told once: in the table, or on stderr where there is none") {
  const std::string sample =
      std::string(ac_advisor::test::source_dir) + "/sample_models/tiny-llama/config.json";
  const std::string ours = "sed 's/\"llama\"/\"ours\"/' " + sample + " | ";
  const std::string program(ac_advisor::test::program);
  const auto piped = [&](const std::string& arguments) {
    // The shell's own pipe: `run` puts the program first.
    return run("--version >/dev/null; " + ours + program + " " + arguments);
  };
  const std::string note = "note: parsed as llama; no effect: ";
  CHECK(contains(piped("plan - --as llama --format json 2>&1 >/dev/null").out, note));
  CHECK(contains(piped("advise - --as llama 2>&1 >/dev/null").out, note));
  CHECK(contains(piped("export - --as llama --to hf 2>&1 >/dev/null").out, note));
  CHECK(piped("plan - --as llama 2>&1 >/dev/null").out.empty());
  CHECK(contains(piped("plan - --as llama").out, "configuration is parsed as llama; no effect: "));
  CHECK(piped("plan - 2>&1").code == 2);
}

TEST_CASE("a terminal's text is ASCII alone where the locale is not UTF-8, and a file's never") {
  const auto ascii = [](const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 128; });
  };
  for (const char* locale : {"C", "POSIX", "de_DE.ISO-8859-1"})
    CHECK(ascii(run("plan tiny-llama", std::string("LC_ALL=") + locale).out));
  for (const char* locale :
       {"LC_ALL=C.UTF-8", "LC_ALL= LC_CTYPE=C.utf8", "LC_ALL= LC_CTYPE= LANG=de_DE.UTF-8"})
    CHECK(contains(run("plan tiny-llama", locale).out, "█"));
  const std::filesystem::path file = scratch("blocks.txt");
  CHECK(run("plan tiny-llama --output " + file.string(), "LC_ALL=C").code == 0);
  std::ostringstream written;
  written << std::ifstream(file).rdbuf();
  CHECK(contains(written.str(), "█"));
}

TEST_CASE("what a preset gives up for a model is a note on stderr, and the plan is made") {
  const std::string plan = "plan gemma-2-2b --framework torchtitan ";
  CHECK(run(plan + "2>/dev/null").code == 0);
  const std::string note = run(plan + "--format json 2>&1 1>/dev/null").out;
  CHECK(contains(note, "ac-advisor: note: --framework torchtitan has --attn cudnn"));
  CHECK(contains(note, "--attn auto is planned instead"));
  CHECK(run(plan + "--attn cudnn 2>/dev/null").code == 2);  // by hand it is refused
}

TEST_CASE("--rows says for how many rows the largest batch is sought") {
  const std::string text = run("advise tiny-llama --seq 64 --batch 4 --rows 30 2>/dev/null").out;
  std::istringstream lines(text);
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("* ") && !line.starts_with("  none ") && !line.starts_with("  full "))
      continue;
    ++rows;
    const char last = line.back();  // c: with Liger's chunk at that batch
    CHECK((last == '+' || last == 'c' || (last >= '0' && last <= '9')));
    CHECK((contains(line, "n/a") == contains(line, " lc-ce ")));
  }
  CHECK(rows > 15);
}

TEST_CASE("no colour in a pipe") {
  CHECK_FALSE(contains(run("plan tiny-llama").out, "\033"));
  CHECK_FALSE(contains(run("advise tiny-llama").out, "\033"));
}

TEST_CASE("a plan that does not fit, an error's text and a snapshot end with the same changes") {
  const std::string step = " llama-3.2-1b --batch 32 --seq 2048 2>/dev/null",
                    data = std::string(ac_advisor::test::source_dir) + "/tests/snapshot/data/";
  const auto changes = [](const Ran& ran) {
    CHECK(ran.code == 0);
    const std::size_t at = ran.out.find("\nchange ");
    REQUIRE(at != std::string::npos);
    std::string table = ran.out.substr(at, ran.out.find("\n\n", at + 1) - at);
    while (table.ends_with('\n')) table.pop_back();
    return table;
  };
  const std::string planned = changes(run("plan" + step));
  CHECK(changes(run("snapshot " + data + "oom.pickle.gz --model" + step)) == planned);
  const std::string text =
      "printf '%s' 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.83 GiB. GPU 0 "
      "has a total capacity of 79.19 GiB of which 1.00 GiB is free.' | ";
  CHECK(changes(ac_advisor::test::shell(text + std::string(ac_advisor::test::program) + " oom -" +
                                        step)) == planned);
}

TEST_CASE("compare reads what plan and advise wrote") {
  const std::string a = scratch("compare_a.json"), b = scratch("compare_b.json");
  for (const std::string command : {"plan", "advise"}) {
    CAPTURE(command);
    REQUIRE(run(command + " tiny-llama --batch 2 --format json --output " + a).code == 0);
    REQUIRE(run(command + " tiny-llama --batch 2 --seq 512 --format json --output " + b).code == 0);
    for (const char* format : {"table", "json", "csv", "md"}) {
      CAPTURE(format);
      const Ran result = run("compare " + a + " " + b + " --format " + format);
      CHECK(result.code == 0);
      CHECK_FALSE(result.out.empty());
    }
    const Ran table = run("compare " + a + " " + b);
    CHECK(contains(table.out, "seq"));
    CHECK(contains(table.out, "512"));
  }
  REQUIRE(run("plan tiny-llama --format json --output " + a).code == 0);
  CHECK(run("compare " + a + " " + b + " 2>/dev/null").code == 2);  // a profile and a sweep
}

TEST_CASE("report renders what every command has saved") {
  const std::string profile = scratch("report_p.json"), sweep = scratch("report_s.json"),
                    diff = scratch("report_d.json"), explained = scratch("report_e.json"),
                    trace = scratch("report_t.json"), page = scratch("report.html");
  const auto save = [](const std::string& command, const std::string& file) {
    REQUIRE(run(command + " --format json --output " + file).code == 0);
  };
  save("plan tiny-llama --batch 2", profile);
  save("advise tiny-llama --batch 2", sweep);
  save("explain tiny-llama --batch 2 --ac full", explained);
  save("explain tiny-llama --trace", trace);
  save("compare " + profile + " " + explained, diff);
  for (const std::string& file : {profile, sweep, diff, explained, trace}) {
    CAPTURE(file);
    for (const char* format : {"md", "csv", "html", "table", "json"}) {
      CAPTURE(format);
      const Ran result = run("report " + file + " --format " + format);
      CHECK(result.code == 0);
      CHECK_FALSE(result.out.empty());
    }
    CHECK(contains(run("report " + file).out, "<!doctype html>"));  // html is the default
  }
  // As the command itself would have said it.
  CHECK(run("report " + sweep + " --format md").out ==
        run("advise tiny-llama --batch 2 --format md").out);
  CHECK(run("report " + profile + " --format csv").out ==
        run("plan tiny-llama --batch 2 --format csv").out);
  CHECK(run("report " + profile + " " + explained + " --output " + page).code == 0);
  CHECK(run("plan tiny-llama --batch 2 --format json | " + std::string(ac_advisor::test::program) +
            " report /dev/stdin --format csv")
            .out == run("report " + profile + " --format csv").out);  // a pipe is read once
  CHECK(std::filesystem::file_size(page) > 10'000);
  CHECK(contains(run("report " + profile + " " + sweep + " --format md").out, "## "));
  CHECK(run("report " + profile + " " + sweep + " --format csv 2>/dev/null").code == 2);
  CHECK(run("report " + page + " 2>/dev/null").code == 2);  // not JSON
  const std::string huge = scratch("huge.json");
  std::ofstream(huge) << "{";
  std::filesystem::resize_file(huge, std::uintmax_t{65} << 20);  // a million rows have more
  CHECK(contains(run("report " + huge + " 2>&1").out, "larger than 64 MiB"));
  std::filesystem::remove(huge);
  std::ofstream(scratch("empty.json")).flush();
  CHECK(run("report " + scratch("empty.json").string() + " 2>/dev/null").code == 2);
}

TEST_CASE("html of plan, advise and compare is one page") {
  const std::string a = scratch("page_a.json"), b = scratch("page_b.json");
  REQUIRE(run("plan tiny-llama --batch 2 --format json --output " + a).code == 0);
  REQUIRE(run("plan tiny-llama --batch 4 --format json --output " + b).code == 0);
  for (const std::string& command : {std::string("plan tiny-llama"),
                                     std::string("advise tiny-llama"), "compare " + a + " " + b}) {
    CAPTURE(command);
    const Ran result = run(command + " --format html");
    CHECK(result.code == 0);
    CHECK(result.out.find("<!doctype html>") == 0);
    CHECK(contains(result.out, "</html>"));
  }
}

TEST_CASE("every command works on every format it has") {
  for (const char* format : {"table", "json", "csv", "md"})
    for (const char* command : {"plan tiny-llama", "advise tiny-llama", "explain tiny-llama",
                                "explain tiny-llama --trace --ac selective"}) {
      CAPTURE(command);
      CAPTURE(format);
      const Ran result = run(std::string(command) + " --format " + format);
      CHECK(result.code == 0);
      CHECK_FALSE(result.out.empty());
    }
  CHECK(run("explain tiny-llama --schedule").code == 0);
  CHECK(contains(run("explain tiny-llama --program --ac full").out, "recompute blocks.0."));
  CHECK(contains(run("explain tiny-llama --passes --ac full").out, "differentiate"));
  CHECK(run("models").code == 0);
  CHECK(run("devices").code == 0);
}

TEST_CASE("docs/program.md has what explain --passes prints (AC_ADVISOR_UPDATE_DOCS=1 writes it)") {
  const std::string file = std::string(ac_advisor::test::source_dir) + "/docs/program.md";
  std::stringstream page;
  page << std::ifstream(file).rdbuf();
  const std::string text = page.str();
  const std::string table = run("explain llama-3.2-1b --batch 8 --seq 2048 --ac full "
                                "--kernels fused --world 8 --passes")
                                .out;
  const std::size_t begin = text.find("pass  "), end = text.find("```", begin);
  REQUIRE(end != std::string::npos);
  if (std::getenv("AC_ADVISOR_UPDATE_DOCS") != nullptr)
    std::ofstream(file) << text.substr(0, begin) + table + text.substr(end);
  else
    CHECK(text.substr(begin, end - begin) == table);
}

TEST_CASE("docs/options.md is the table of options (AC_ADVISOR_UPDATE_DOCS=1 writes it)") {
  const std::string file = std::string(ac_advisor::test::source_dir) + "/docs/options.md";
  const std::string page = run("generate reference").out;
  if (std::getenv("AC_ADVISOR_UPDATE_DOCS") != nullptr) std::ofstream(file) << page;
  std::stringstream written;
  written << std::ifstream(file).rdbuf();
  CHECK(written.str() == page);
  for (const ac_advisor::OptionRow& row : ac_advisor::option_table())
    if (row.on_command_line()) CHECK(contains(page, "| `" + std::string(row.name)));
}

TEST_CASE("a model's folder with a hostile name is planned and shown harmlessly") {
  const std::filesystem::path folder = scratch("hostile |`<b>\033[2J\xff");
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(
      std::filesystem::path(ac_advisor::test::source_dir) / "sample_models/tiny-llama/config.json",
      folder / "config.json", std::filesystem::copy_options::overwrite_existing);
  for (const char* format : {"table", "json", "csv", "md", "html"})
    for (const char* command : {"plan", "advise"}) {
      CAPTURE(command);
      CAPTURE(format);
      const Ran result =
          run(std::string(command) + " '" + folder.string() + "' --format " + format);
      CHECK(result.code == 0);
      if (std::string(format) != "csv") CHECK_FALSE(contains(result.out, "\033"));
    }
}

TEST_CASE("trace FILE, diagnose and report read what profilers wrote") {
  const std::string data = std::string(ac_advisor::test::source_dir) + "/tests/trace/data/";
  const std::string a = data + "kineto_none.json", b = data + "kineto_full.json";
  const Ran summary = run("trace " + b + " --format json");
  CHECK(summary.code == 0);
  CHECK(contains(summary.out, "\"busy_seconds\""));
  CHECK(contains(run("trace - --format md < " + b).out, "Phases of a step"));
  CHECK(contains(run("trace " + data).out, "Ranks, milliseconds per step"));
  for (const std::string& command :
       {"report " + b, "trace " + b + " --format html",
        "diagnose " + a + " " + b + " --format html", "report " + data}) {
    CAPTURE(command);
    const Ran page = run(command);
    CHECK(page.code == 0);
    CHECK(contains(page.out, "<!doctype html>"));
  }
  const Ran compared = run("diagnose " + a + " " + b + " --model tiny-llama --ac full");
  CHECK(compared.code == 0);
  CHECK(contains(compared.out, "predicted"));
  for (const char* bad :
       {" --plan x.json --model tiny-llama", " --ac full", " --model tiny-llama"}) {
    CAPTURE(bad);
    CHECK(run("diagnose " + a + " " + b + bad + " 2>/dev/null").code == 2);
  }
  const std::string saved = scratch("diagnosis.json").string();
  CHECK(run("diagnose " + a + " " + b + " --format json --output " + saved).code == 0);
  CHECK(contains(run("report " + saved + " --format md").out, "launch ratio"));
}
