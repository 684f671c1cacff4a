#include "ac_advisor/profile/run_spec.hpp"

#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/simulate/device.hpp"

namespace ac_advisor::profile {
namespace {

using Json = nlohmann::json;

constexpr const char* schema = "ac-advisor/run/1";

/// One visit for both directions.
template <typename Spec, typename Io>
void visit(Spec& s, Io io) {
  io("model", s.model);
  io("as", s.as);
  io("configs", s.configs);
  io("emulated", s.emulated);
  io("collectives", s.collectives);
  io("steps", s.steps);
  io("seed", s.seed);
  io("data", s.data);
  io("weights", s.weights);
  io("checkpoint", s.checkpoint);
  io("resume", s.resume);
  io("learning_rate", s.learning_rate);
  io("warmup_steps", s.warmup_steps);
  io("memory_limit_bytes", s.memory_limit);
  io("timeout_seconds", s.timeout_seconds);
  io("instrument", s.instrument);
  io("parity", s.parity);
  io("log_steps", s.log_steps);
  io("calibrate", s.calibrate);
  io("output", s.output);
}

}  // namespace

bool for_gpu(const RunSpec& spec) {
  bool cuda = false;
  for (std::size_t i = 0; i < spec.configs.size(); ++i) {
    const bool this_one = simulate::find_device(resolve_options(spec.configs[i]).device.gpu).cuda;
    if (i > 0 && this_one != cuda)
      throw UserError("--gpu: some configurations are for a GPU, others for the CPU");
    cuda = this_one;
  }
  return cuda;
}

std::string to_json(const RunSpec& spec) {
  Json out = {{"schema", schema}};
  visit(spec, [&](const char* name, const auto& member) { out[name] = member; });
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

RunSpec read_run_spec(const std::string& text, const std::string& origin) {
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) throw UserError(origin + ": not a JSON object, or cut short");
  if (root.value("schema", Json()) != schema)
    throw UserError(origin + ": \"schema\" must be \"" + schema + "\"");
  RunSpec spec;
  std::string field;
  try {
    visit(spec, [&](const char* name, auto& member) {
      field = name;
      root.at(name).get_to(member);
    });
  } catch (const Json::exception&) {
    throw UserError(origin + ": \"" + field +
                    "\" is missing or of another type; `ac-advisor measure` writes such files");
  }
  return spec;
}

}  // namespace ac_advisor::profile
