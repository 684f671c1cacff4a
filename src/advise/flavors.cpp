#include "flavors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "embedded/embedded.hpp"

namespace ac_advisor::advise {
namespace {

struct Size {
  std::string_view key, words;
  double (*of)(const model::ModelSpec&);
};
constexpr Size sizes[] = {
    {"layers", "layers", [](const model::ModelSpec& m) { return static_cast<double>(m.layers); }},
    {"hidden", "width", [](const model::ModelSpec& m) { return static_cast<double>(m.hidden); }},
    {"intermediate", "MLP width",
     [](const model::ModelSpec& m) { return static_cast<double>(m.intermediate); }},
    {"heads", "heads", [](const model::ModelSpec& m) { return static_cast<double>(m.heads); }},
    {"kv_heads", "key-value heads",
     [](const model::ModelSpec& m) { return static_cast<double>(m.kv_heads); }},
    {"head_dim", "head size",
     [](const model::ModelSpec& m) { return static_cast<double>(m.head_dim); }},
    {"vocab", "vocabulary", [](const model::ModelSpec& m) { return static_cast<double>(m.vocab); }},
    {"tied", "tied embeddings",
     [](const model::ModelSpec& m) { return m.tied_embeddings ? 1.0 : 0.0; }},
    {"qkv_bias", "biases of q, k and v",
     [](const model::ModelSpec& m) { return m.qkv_bias ? 1.0 : 0.0; }},
    {"other_biases", "biases of other projections",
     [](const model::ModelSpec& m) {
       return m.output_bias || m.mlp_bias || m.head_bias ? 1.0 : 0.0;
     }},
    {"rope_theta", "rope_theta", [](const model::ModelSpec& m) { return m.rope_theta; }},
    {"rope_factor", "rotary scaling", llama3_rope_factor},
    {"norm_eps", "rms_norm_eps", [](const model::ModelSpec& m) { return m.rms_norm_eps; }},
    {"experts", "experts",
     [](const model::ModelSpec& m) { return m.moe ? static_cast<double>(m.moe->experts) : 0.0; }},
    {"top_k", "experts a token",
     [](const model::ModelSpec& m) { return m.moe ? static_cast<double>(m.moe->top_k) : 0.0; }},
    {"expert_intermediate", "expert width",
     [](const model::ModelSpec& m) {
       return m.moe ? static_cast<double>(m.moe->intermediate) : 0.0;
     }},
};

std::vector<Flavor> read(std::string_view text) {
  std::vector<Flavor> all;
  const auto json = nlohmann::ordered_json::parse(text);
  for (const auto& row : json.at("flavors")) {
    Flavor flavor{row.at("family"), row.at("model"), row.at("name"), {}};
    for (const auto& [key, value] : row.at("sizes").items())
      flavor.sizes.emplace_back(key, value.get<double>());
    all.push_back(std::move(flavor));
  }
  return all;
}

}  // namespace

double Flavor::size(std::string_view key) const {
  for (const auto& [named, value] : sizes)
    if (named == key) return value;
  return 0;
}

double llama3_rope_factor(const model::ModelSpec& m) {
  if (!m.rope_scaling) return 1;
  const model::RopeScaling& r = *m.rope_scaling;
  // What no table of these frameworks leaves open: Llama 3.1's other three figures.
  const bool usual =
      r.low_freq_factor == 1 && r.high_freq_factor == 4 && r.original_positions == 8192;
  return r.type == "llama3" && usual ? r.factor : 0;
}

const std::vector<Flavor>& flavors(std::string_view framework) {
  static const std::map<std::string, std::vector<Flavor>, std::less<>> all = [] {
    constexpr std::string_view folder = "flavors/", ending = ".json";
    std::map<std::string, std::vector<Flavor>, std::less<>> tables;
    for (const embedded::File& file : embedded::files())
      if (file.path.starts_with(folder))
        tables.emplace(
            file.path.substr(folder.size(), file.path.size() - folder.size() - ending.size()),
            read(file.text));
    return tables;
  }();
  static const std::vector<Flavor> none;
  const auto found = all.find(framework);
  return found == all.end() ? none : found->second;
}

std::string differences(const model::ModelSpec& model, const Flavor& flavor) {
  std::string text;
  for (const auto& [key, value] : flavor.sizes)
    for (const Size& size : sizes) {
      if (size.key != key || size.of(model) == value) continue;
      const bool flag = size.words.starts_with("tied") || size.words.starts_with("biases");
      text += (text.empty() ? "" : ", ") +
              (flag ? fmt::format("{}{}", value == 0 ? "" : "no ", size.words)
                    : fmt::format("{} {:.10g} (not {:.10g})", size.words, size.of(model), value));
    }
  return text;
}

const Flavor* find_flavor(std::string_view framework, const model::ModelSpec& model) {
  for (const Flavor& flavor : flavors(framework))
    if (flavor.family == model.family && differences(model, flavor).empty()) return &flavor;
  return nullptr;
}

std::string sample_of(std::string_view framework, std::string_view flavor) {
  for (const Flavor& row : flavors(framework)) {
    // litgpt's names are the Hub's, which have the organisation already.
    const bool whole = row.name.find('/') != std::string::npos;
    if ((whole ? row.name : row.model + "/" + row.name) != flavor) continue;
    for (const std::string& sample : model::sample_names()) {
      const model::ModelSpec spec = model::load_model(sample);
      if (row.family == spec.family && differences(spec, row).empty()) return sample;
    }
  }
  return {};
}

std::string nearest_flavor(std::string_view framework, const model::ModelSpec& model) {
  std::string best, name;
  for (const Flavor& flavor : flavors(framework)) {
    if (flavor.family != model.family) continue;
    const std::string now = differences(model, flavor);
    const auto count = [](const std::string& text) {
      return std::count(text.begin(), text.end(), ',');
    };
    if (name.empty() || count(now) < count(best)) best = now, name = flavor.name;
  }
  return name.empty() ? name : fmt::format("the nearest is {}: the model has {}", name, best);
}

}  // namespace ac_advisor::advise
