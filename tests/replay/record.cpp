// Plans the cases of a list (list.cpp) and says of each what a hash can tell: a line a case.
//   replay_record LIST PART PARTS   every PARTS-th case from PART on
//   replay_record LIST --show CASE  what was hashed of one case, as text
// It includes the public headers alone, so that it builds against an earlier commit, too.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/option_table.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/program_text.hpp"
#include "ac_advisor/passes/schedule.hpp"

namespace {

using namespace ac_advisor;
using nlohmann::json;

/// FNV-1a, of eight bytes at a time.
class Hash {
 public:
  void add(std::string_view text) {
    for (; text.size() >= 8; text.remove_prefix(8)) {
      std::uint64_t word = 0;
      std::copy_n(text.data(), 8, reinterpret_cast<char*>(&word));
      mix(word);
    }
    for (char c : text) mix(static_cast<unsigned char>(c));
    mix(0x100 + text.size());
  }
  template <typename T>
  void add(const std::vector<T>& all) {
    add({reinterpret_cast<const char*>(all.data()), all.size() * sizeof(T)});
  }
  [[nodiscard]] std::string text() const {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string hex;
    for (int shift = 60; shift >= 0; shift -= 4) hex += digits[(state_ >> shift) & 15];
    return hex;
  }

 private:
  void mix(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x100000001b3ULL;
    state_ ^= state_ >> 29;
  }
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

std::string hash_of(std::string_view text) {
  Hash hash;
  hash.add(text);
  return hash.text();
}

/// The program as text and the schedule's hash; of a pipeline its first rank's, and none where the
/// plan chooses among programs itself (--ac budget).
struct Program {
  std::string text, schedule;
};
Program program_of(const model::ModelSpec& spec, StepConfig config) {
  if (config.memory.ac == AcMode::budget) return {};
  if (config.layout.pp > 1 && config.layout.pp_rank == Layout::highest_rank)
    config.layout.pp_rank = 0;
  const passes::StepProgram step = passes::build_step(spec, config);
  const passes::Schedule schedule = passes::make_schedule(step);
  Hash hash;
  for (const auto* part : {&schedule.resident, &schedule.carried, &schedule.free_begin,
                           &schedule.freed, &schedule.last_use})
    hash.add(*part);
  return {passes::program_text(step), hash.text()};
}

struct Case {
  std::string name;
  const model::ModelSpec* spec = nullptr;
  std::string unread;  ///< why this revision cannot read the model
  OptionList options;
  bool under_dispatch_mode = false;

  [[nodiscard]] StepConfig config() const {
    StepConfig config = resolve_options(options);
    if (const OptionRow* row = find_option_key("under_dispatch_mode");
        row != nullptr && under_dispatch_mode)
      row->set(*row, true, config);
    return config;
  }
};

/// {"program": …, "schedule": …} and the plan's JSON by its members, which may be many.
json parts_of(const Case& c) {
  if (c.spec == nullptr) throw std::runtime_error(c.unread);
  const StepConfig config = c.config();
  json parts = json::parse(profile::to_json(advise::plan(*c.spec, config)));
  const Program program = program_of(*c.spec, config);
  parts["program"] = program.text;
  parts["schedule"] = program.schedule;
  parts.erase("tool_version");
  return parts;
}

std::string line_of(const Case& c) {
  json line{{"case", c.name}};
  try {
    const json parts = parts_of(c);
    for (const auto& [name, part] : parts.items())
      line["parts"][name] =
          hash_of(part.is_string() ? part.get_ref<const std::string&>() : part.dump());
    line["peak"] = parts.at("memory").at("peak_allocated_bytes");
  } catch (const std::exception& error) {
    line["refused"] = error.what();
  }
  return line.dump();
}

struct List {
  std::map<std::string, model::ModelSpec> models;
  std::map<std::string, std::string> unread;
  std::vector<Case> cases;
};

List read(const std::string& file) {
  List list;
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot read " + file);
  for (std::string text; std::getline(stream, text);) {
    const json line = json::parse(text);
    if (line.contains("config")) {
      const std::string id = line.at("model");
      try {
        list.models.emplace(
            id, model::parse_config(line.at("config").get<std::string>(), id, line.at("name")));
      } catch (const std::exception& error) {
        list.unread.emplace(id, error.what());
      }
      continue;
    }
    Case c;
    c.name = line.at("case");
    const std::string model = line.at("model");
    if (const auto why = list.unread.find(model); why != list.unread.end())
      c.unread = why->second;
    else
      c.spec = &list.models.at(model);
    for (const json& option : line.at("options")) c.options.emplace_back(option[0], option[1]);
    c.under_dispatch_mode = line.value("dispatch", false);
    list.cases.push_back(std::move(c));
  }
  return list;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 3) {
    std::cerr << "usage: replay_record LIST PART PARTS | LIST --show CASE\n";
    return 2;
  }
  const List list = read(arguments[0]);
  if (arguments[1] == "--show") {
    for (const Case& c : list.cases)
      if (c.name == arguments[2]) {
        try {
          const json parts = parts_of(c);
          for (const auto& [name, part] : parts.items())
            std::cout << "== " << name << "\n"
                      << (part.is_string() ? part.get<std::string>() : part.dump(1)) << "\n";
        } catch (const std::exception& error) {
          std::cout << "== refused\n" << error.what() << "\n";
        }
      }
    return 0;
  }
  const std::size_t part = std::stoul(arguments[1]), parts = std::stoul(arguments[2]);
  for (std::size_t i = part; i < list.cases.size(); i += parts)
    std::cout << line_of(list.cases[i]) << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << "replay: " << error.what() << "\n";
  return 2;
}
