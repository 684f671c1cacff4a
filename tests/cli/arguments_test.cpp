#include "cli/arguments.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "cli/command_table.hpp"
#include "cli/generate.hpp"
#include "model/option_words.hpp"

using namespace ac_advisor;

namespace {

cli::Arguments parse(std::vector<const char*> words) {
  words.insert(words.begin(), "ac-advisor");
  return cli::parse_arguments(static_cast<int>(words.size()), words.data());
}

std::string error_of(const std::vector<const char*>& words) {
  try {
    static_cast<void>(parse(words));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("command, model and options are taken apart in their order") {
  const cli::Arguments a = parse({"plan", "m", "--seq", "2048", "--batch=8", "--keep-last-block",
                                  "--as", "llama", "--format", "csv", "--output", "f.csv"});
  CHECK(a.command == "plan");
  CHECK(a.positional == std::vector<std::string>{"m"});
  CHECK(a.options == OptionList{{"--seq", "2048"}, {"--batch", "8"}, {"--keep-last-block", ""}});
  CHECK(a.as == "llama");
  CHECK(a.format == "csv");
  CHECK(a.output == "f.csv");
}

TEST_CASE("of an option given twice, and of a pair that contradicts, the last one counts") {
  CHECK(parse({"plan", "m", "--ac", "full", "--ac", "none"}).options ==
        OptionList{{"--ac", "none"}});
  CHECK(parse({"plan", "m", "--no-hold-output", "--hold-output"}).options.back().first ==
        "--hold-output");
  CHECK(parse({"plan", "m", "--hold-output", "--no-hold-output"}).options.back().first ==
        "--no-hold-output");
}

TEST_CASE("a flag that is given a value is refused by its name and the value") {
  CHECK(error_of({"plan", "m", "--no-sync=3"}) ==
        "--no-sync=3: takes no value; write --no-sync alone");
  CHECK(error_of({"plan", "m", "--no-hold-output=false"}) ==
        "--no-hold-output=false: takes no value; write --no-hold-output alone");
  CHECK(error_of({"advise", "m", "--vary-global-batch=1"}) ==
        "--vary-global-batch=1: takes no value; write --vary-global-batch alone");
  CHECK(parse({"plan", "m", "--no-sync"}).options == OptionList{{"--no-sync", ""}});
  CHECK(parse({"plan", "m", "--batch=3"}).options == OptionList{{"--batch", "3"}});
}

TEST_CASE("options may stand before MODEL") {
  for (const auto& words : {std::vector<const char*>{"plan", "--batch", "2", "m"},
                            {"plan", "--batch=2", "m"},
                            {"plan", "m", "--batch", "2"}}) {
    const cli::Arguments a = parse(words);
    CHECK(a.positional == std::vector<std::string>{"m"});
    CHECK(a.options == OptionList{{"--batch", "2"}});
  }
}

TEST_CASE("--autocast alone is bf16, and takes the next word only where it is a value") {
  for (const auto& words : {std::vector<const char*>{"plan", "--autocast", "m"},
                            {"plan", "m", "--autocast"},
                            {"plan", "m", "--autocast", "bf16"},
                            {"plan", "m", "--autocast=bf16"}}) {
    const cli::Arguments a = parse(words);
    CHECK(a.positional == std::vector<std::string>{"m"});
    CHECK(a.options == OptionList{{"--autocast", "bf16"}});
  }
  CHECK(parse({"plan", "m", "--autocast", "--batch", "2"}).options ==
        OptionList{{"--autocast", "bf16"}, {"--batch", "2"}});
  CHECK(parse({"plan", "m", "--autocast", "none"}).options == OptionList{{"--autocast", "none"}});
}

TEST_CASE("an unknown option is named, with the nearest known one") {
  CHECK(contains(error_of({"plan", "m", "--bacth", "8"}),
                 "--bacth: unknown option; did you mean "
                 "--batch?"));
  CHECK(contains(error_of({"plan", "m", "--zzz=1"}), "--zzz: unknown option"));
  CHECK(contains(error_of({"plan", "m", "-q"}), "-q: unknown option"));
  CHECK(contains(error_of({"--bogus"}), "--bogus: unknown option"));
}

TEST_CASE("an unknown command is named, with the nearest known one") {
  CHECK(contains(error_of({"advice", "m"}), "\"advice\": unknown command; did you mean advise?"));
  CHECK(contains(error_of({""}), "unknown command"));
}

TEST_CASE("calibrate takes the device, its threads and nothing of a step") {
  const cli::Arguments a = parse({"calibrate", "--gpu", "cpu", "--threads", "2", "--quick"});
  CHECK(a.options == OptionList{{"--gpu", "cpu"}, {"--threads", "2"}});
  CHECK(a.quick);
  CHECK_FALSE(parse({"calibrate"}).quick);
  CHECK(contains(error_of({"calibrate", "--batch", "8"}), "--batch: unknown option"));
  CHECK(contains(error_of({"calibrate", "model"}), "not expected: model"));
}

TEST_CASE("too few and too many arguments are told in words") {
  CHECK(contains(error_of({"plan"}), "plan needs MODEL"));
  CHECK(contains(error_of({"plan", "m", "n"}), "n: unexpected argument"));
  CHECK(contains(error_of({"compare"}), "two files"));
  CHECK(contains(error_of({"compare", "a", "b", "c"}), "two files"));
  CHECK(contains(error_of({"diagnose", "a"}), "diagnose needs two traces"));
  CHECK(contains(error_of({"diagnose", "a", "b", "c"}), "c: unexpected argument"));
  CHECK(contains(error_of({"doctor", "m"}), "not expected: m"));
  CHECK(contains(error_of({"plan", "m", "--batch"}), "--batch needs one value"));
  CHECK(contains(error_of({"export", "m"}), "--to"));
  CHECK(contains(error_of({"advise", "m", "--rows", "0"}), "--rows"));
}

TEST_CASE("what follows -- is the traced program's, options too") {
  const cli::Arguments a =
      parse({"trace", "--output", "f.json", "--", "python", "--batch", "8", "--", "--help"});
  CHECK(a.command == "trace");
  CHECK(a.output == "f.json");
  CHECK(a.positional == std::vector<std::string>{"python", "--batch", "8", "--", "--help"});
  CHECK(contains(error_of({"trace"}), "trace needs a command after --"));
  CHECK(contains(error_of({"trace", "--"}), "trace needs a command after --"));
  CHECK(contains(error_of({"trace", "no-such-program", "x.py"}), "takes the program after --"));
  CHECK(contains(error_of({"trace", "--outptu", "f", "--", "ls"}), "did you mean --output?"));
}

TEST_CASE("a negative number is a value, not an option") {
  CHECK(parse({"plan", "m", "--batch", "-1"}).options == OptionList{{"--batch", "-1"}});
}

TEST_CASE("words of other tools are taken for ours, underscores too") {
  const auto options_of = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"plan", "m"});
    return parse(words).options;
  };
  for (const char* batch : {"--batch-size", "--per_device_train_batch_size", "--micro-batch-size"})
    CHECK(options_of({batch, "8"}) == OptionList{{"--batch", "8"}});
  for (const char* seq : {"--seq-len", "--max-length", "--max_seq_length", "--cutoff_len"})
    CHECK(options_of({seq, "8k"}) == OptionList{{"--seq", "8k"}});
  for (const char* world : {"--world-size", "--num-gpus", "--gpus"})
    CHECK(options_of({world, "8"}) == OptionList{{"--world", "8"}});
  CHECK(options_of({"--gradient-checkpointing"}) == OptionList{{"--ac", "full"}});
  // A switch may be told its value there, as HfArgumentParser takes it.
  for (const char* on : {"--gradient_checkpointing=True", "--gradient-checkpointing=1"})
    CHECK(options_of({on}) == OptionList{{"--ac", "full"}});
  CHECK(options_of({"--gradient_checkpointing", "True", "--seq", "64"}) ==
        OptionList{{"--ac", "full"}, {"--seq", "64"}});
  CHECK(options_of({"--gradient_checkpointing", "False"}) == OptionList{{"--ac", "none"}});
  CHECK(options_of({"--load-in-4bit=false"}) == OptionList{{"--quantize", "none"}});
  CHECK(options_of({"--torch_compile=no"}) == OptionList{{"--kernels", "eager"}});
  CHECK(contains(error_of({"plan", "m", "--flash-attention=False"}),
                 "--flash-attention=False: it stands for --attn flash here"));
  CHECK(contains(error_of({"plan", "m", "--gradient-checkpointing=selective"}), "--ac full here"));
  CHECK(contains(error_of({"plan", "m", "--bf16=false"}), "--autocast bf16"));
  CHECK(options_of({"--zero", "3"}) == OptionList{{"--shard", "zero3"}});
  CHECK(options_of({"--zero-stage=2"}) == OptionList{{"--shard", "zero2"}});
  CHECK(options_of({"--grad_accum", "4", "--load-in-4bit"}) ==
        OptionList{{"--grad-accum", "4"}, {"--quantize", "nf4"}});
  CHECK(contains(error_of({"plan", "m", "--zero"}), "--zero needs one value"));
  CHECK(contains(error_of({"plan", "m", "--bf16"}), "--autocast bf16"));
  CHECK(contains(error_of({"plan", "m", "--nodes", "4"}), "--world"));
  CHECK(contains(error_of({"serve", "--batch-size", "4"}), "--batch-size: unknown option"));
  // Each leads to an option that is there.
  for (const options::Elsewhere& word : options::elsewhere()) {
    CAPTURE(word.there);
    CHECK(find_option(word.there) == nullptr);
    if (word.here.empty())
      CHECK_FALSE(word.way_out.empty());
    else
      CHECK((find_option(word.here) != nullptr || word.here == "--global-batch"));
    for (const std::string_view value : {word.value, word.off}) {
      if (value.empty()) continue;
      CAPTURE(value);
      const auto& words = find_option(word.here)->words;
      CHECK(std::find(words.begin(), words.end(), value) != words.end());
    }
    // Where it is one of ours, what is said of it would not be read.
    if (word.here.empty())
      for (const cli::ProgramOption& ours : cli::program_options()) CHECK(ours.name != word.there);
  }
}

TEST_CASE("--model where MODEL belongs says how") {
  CHECK(contains(error_of({"plan", "--model", "llama-3.2-1b"}),
                 "MODEL stands without an option: ac-advisor plan llama-3.2-1b"));
}

TEST_CASE("oom takes the global batch of the step beside it") {
  CHECK(parse({"oom", "log", "m", "--global-batch-size", "64"}).options ==
        OptionList{{"--global-batch", "64"}});
}

TEST_CASE("completion and reference have all that generate writes, and each option's opposite") {
  const std::string bash = cli::bash_completion(), reference = cli::options_reference();
  for (const std::string_view name : cli::generated_names()) {
    CAPTURE(name);
    CHECK_NOTHROW(static_cast<void>(parse({"generate", std::string(name).c_str()})));
    CHECK(contains(bash, std::string(name)));
  }
  CHECK(contains(bash, " man reference schema "));
  CHECK(contains(reference, "| `--hold-output`, `--no-hold-output` |"));
}

TEST_CASE("--help is one screen, the GPU first, and --help-all is all of it") {
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  for (const cli::CommandRow& command : cli::command_table()) {
    const std::string name(command.name);
    if (name == "help" || name == "version") continue;
    CAPTURE(name);
    CHECK(lines(parse({name.c_str(), "--help"}).help) <= 40);
    for (const cli::ShownOption& option : cli::shown_options(command))
      CHECK(contains(parse({name.c_str(), "--help-all"}).help, std::string(option.name.substr(2))));
  }
  const std::string help = parse({"plan", "--help"}).help, all = parse({"plan", "--help-all"}).help;
  CHECK(help.find("\n  --gpu ") < help.find("\n  --batch "));
  CHECK(all.find("\n  --gpu ") < all.find("\n  --batch "));
  CHECK(contains(help, "ac-advisor plan --help-all"));
  CHECK(contains(all, "--[no-]hold-output"));
  CHECK_FALSE(contains(all, "the opposite"));
  CHECK_FALSE(contains(parse({"snapshot", "--help"}).help, "--batch"));
}

TEST_CASE("help lists every command that works, and its options") {
  for (const char* command :
       {"plan", "advise", "compare", "explain", "export", "trace", "diagnose", "doctor"})
    CHECK(contains(parse({"--help"}).help, command));
  const std::string help = parse({"plan", "--help"}).help;
  for (const char* option : {"--framework", "--batch", "--ac", "--shard", "--format", "--output"})
    CHECK(contains(help, option));
  CHECK(parse({}).command == "help");
  CHECK(parse({"--version"}).command == "version");
}
