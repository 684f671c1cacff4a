#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ac_advisor/dryrun/dryrun.hpp"
#include "ac_advisor/model/error.hpp"

namespace ac_advisor::dryrun {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t format = 1;
constexpr std::size_t told_phases[] = {0, 2, 4};  ///< forward, backward, optimizer

std::int64_t number(const Json& line, const char* key) { return line.at(key).get<std::int64_t>(); }
std::string text(const Json& line, const char* key) { return line.at(key).get<std::string>(); }

profile::EmulatedStep step_of(const Json& line) {
  profile::EmulatedStep step;
  step.index = number(line, "index");
  for (const std::size_t i : told_phases) {
    const Json& phase = line.at("phases").at(profile::phase_names[i]);
    step.peak_by_phase[i] = number(phase, "peak_allocated_bytes");
    step.peak_allocated = std::max(step.peak_allocated, step.peak_by_phase[i]);
    step.peak_reserved = std::max(step.peak_reserved, number(phase, "peak_reserved_bytes"));
    step.launches[i] = number(phase, "launches");
    step.host_copies += number(phase, "host_copies");
    step.host_copy_bytes += number(phase, "host_bytes");
  }
  return step;
}

/// A device's or an activity's counts replace what was told of it before.
template <typename Row, typename Same>
void replace(std::vector<Row>& rows, Row fresh, const Same& same) {
  const auto old = std::find_if(rows.begin(), rows.end(), same);
  if (old == rows.end())
    rows.push_back(std::move(fresh));
  else
    *old = std::move(fresh);
}

void add(Record& r, const Json& line) {
  const std::string kind = text(line, "kind");
  if (kind == "process") {
    if (number(line, "format") != format) throw UserError("of another version of ac-advisor");
    r.pid = number(line, "pid");
    r.rank = number(line, "rank");
    r.command = text(line, "command");
  } else if (kind == "device") {
    const std::int64_t index = number(line, "index");
    replace(r.devices,
            {index, number(line, "peak_bytes"), number(line, "total_bytes"),
             number(line, "context_bytes"), number(line, "failures"), number(line, "failed_bytes")},
            [&](const Record::Device& d) { return d.index == index; });
  } else if (kind == "activity") {
    Record::Activity fresh{text(line, "segment"), text(line, "activity"), number(line, "times"),
                           number(line, "bytes")};
    replace(r.activities, fresh, [&](const Record::Activity& old) {
      return old.segment == fresh.segment && old.activity == fresh.activity;
    });
  } else if (kind == "allocator") {
    const std::int64_t device = number(line, "device");
    replace(r.allocators,
            {device, number(line, "peak_allocated_bytes"), number(line, "peak_reserved_bytes"),
             number(line, "peak_step"), text(line, "peak_phase")},
            [&](const Record::Allocator& a) { return a.device == device; });
  } else if (kind == "step") {
    r.steps.push_back(step_of(line));
  } else if (kind == "step_kernel") {
    r.step_kernels.push_back(
        {number(line, "step"), number(line, "times"), text(line, "segment"), text(line, "name")});
  } else if (kind == "out_of_memory") {
    r.out_of_memory = {
        number(line, "requested_bytes"),   number(line, "allocated"), number(line, "reserved"),
        number(line, "device_free_bytes"), text(line, "phase"),       number(line, "step")};
  } else if (kind == "note") {
    r.notes.push_back(text(line, "text"));
  } else if (kind == "unanswered") {
    r.unanswered.push_back(text(line, "function"));
  } else if (kind == "torch") {
    r.torch_version = text(line, "version");
  } else if (kind == "end") {
    r.ended = true;
  }  // what a newer library adds is left alone
}

}  // namespace

std::int64_t Record::peak() const {
  std::int64_t most = 0;
  for (const Device& d : devices) most = std::max(most, d.peak);
  return most;
}

std::string Run::unanswered() const {
  for (const Record& record : records)
    if (!record.unanswered.empty()) return record.unanswered.front();
  return "";
}

Record parse_record(const std::string& text, const std::string& origin) {
  Record record;
  std::istringstream lines(text);
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (lines.eof()) break;  // without its end: the process was killed
    try {
      add(record, Json::parse(line));
    } catch (const std::exception& error) {
      throw UserError(origin + ":" + std::to_string(number) +
                      ": not a line of the emulated device's record (" + error.what() + ")");
    }
  }
  return record;
}

}  // namespace ac_advisor::dryrun
