#include "model_record.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::profile {
namespace {

template <typename Latent, typename Io>
void visit_latent(Latent& latent, Io io) {
  io("q_rank", latent.q_rank);
  io("kv_rank", latent.kv_rank);
  io("plain_dim", latent.plain_dim);
  io("rotated_dim", latent.rotated_dim);
  io("value_dim", latent.value_dim);
}

template <typename Delta, typename Io>
void visit_delta(Delta& delta, Io io) {
  io("key_heads", delta.key_heads);
  io("value_heads", delta.value_heads);
  io("key_dim", delta.key_dim);
  io("value_dim", delta.value_dim);
  io("taps", delta.taps);
}

template <typename Run, typename Io>
void visit_tower_run(Run& run, Io io) {
  io("hidden", run.hidden);
  io("intermediate", run.intermediate);
  io("layers", run.layers);
  io("heads", run.heads);
  io("image", run.image);
  io("patch", run.patch);
  io("channels", run.channels);
  io("layers_read", run.layers_read);
  io("class_token", run.class_token);
  io("sigmoid_gelu", run.sigmoid_gelu);
  io("projector_bias", run.projector_bias);
}

/// Of an encoder of images of any size.
template <typename Run, typename Io>
void visit_patch_run(Run& run, Io io) {
  io("frames", run.frames);
  io("merge", run.merge);
  io("out", run.out);
  io("positions", run.positions);
  io("window", run.window);
  io("whole_layers", run.whole_layers);
  io("taps", run.taps);
}

constexpr const char* form_words[] = {"clip", "qwen2_5", "qwen3"};

model::TowerForm tower_form(const std::string& word, const std::string& origin) {
  for (std::size_t i = 0; i < std::size(form_words); ++i)
    if (word == form_words[i]) return static_cast<model::TowerForm>(i);
  throw UserError(
      origin + ": \"model.tower.run.form\": \"" + word +
      "\" is none of clip, qwen2_5 and qwen3; is this a profile that ac-advisor wrote?");
}

/// One visit for both directions: `io(name, member)` for every figure of the model.
template <typename Spec, typename Io>
void visit(Spec& m, Io io) {
  io("name", m.name);
  io("family", m.family);
  io("hidden", m.hidden);
  io("intermediate", m.intermediate);
  io("layers", m.layers);
  io("heads", m.heads);
  io("kv_heads", m.kv_heads);
  io("head_dim", m.head_dim);
  io("vocab", m.vocab);
  io("max_positions", m.max_positions);
  io("rms_norm_eps", m.rms_norm_eps);
  io("attention_dropout", m.attention_dropout);
  io("pad_token_id", m.pad_token_id);
  io("rope_theta", m.rope_theta);
  io("local_rope_theta", m.local_rope_theta);
  io("attention_scale", m.attention_scale);
  io("tied_embeddings", m.tied_embeddings);
  io("qkv_bias", m.qkv_bias);
  io("output_bias", m.output_bias);
  io("mlp_bias", m.mlp_bias);
  io("qk_norm", m.qk_norm);
  io("fused_qkv", m.fused_qkv);
  io("fused_gate_up", m.fused_gate_up);
  io("sandwich_norms", m.sandwich_norms);
  io("unit_offset_norm", m.unit_offset_norm);
  io("scaled_embedding", m.scaled_embedding);
  io("eager_attention_only", m.eager_attention_only);
  io("kv_sharing", m.kv_sharing);
  io("rotary_dim", m.rotary_dim);
  io("rotary_tables", m.rotary_tables);
  io("window", m.window);
  io("sparse_block", m.sparse_block);
}

template <typename Experts, typename Io>
void visit_megatron(Experts& m, Io io) {
  io("sinkhorn", m.sinkhorn);
  io("aux_loss", m.aux_loss);
  io("pre_softmax", m.pre_softmax);
  io("wide_router", m.wide_router);
  io("grouped", m.grouped);
  io("all_to_all", m.all_to_all);
}

template <typename Experts, typename Io>
void visit_later_megatron(Experts& m, Io io) {
  io("fused_permute", m.fused_permute);
  io("sequence_loss", m.sequence_loss);
  io("expert_bias", m.expert_bias);
}

/// Later than the first files: there only where a model has another value than the default.
template <typename Spec, typename Io>
void visit_later(Spec& m, Io io) {
  io("side_by_side", m.side_by_side);
  io("shared_norm", m.shared_norm);
  io("position_table", m.position_table);
  io("residual_dropout", m.residual_dropout);
  io("embedding_dropout", m.embedding_dropout);
  io("graph_digest", m.graph_digest);
  io("head_bias", m.head_bias);
  io("repeats_keys", m.repeats_keys);
  io("unweighted_qk_norm", m.unweighted_qk_norm);
  io("tuned_temperature", m.tuned_temperature);
  io("attention_chunk", m.attention_chunk);
}

/// What files of version 0.1.0 do not have.
bool is_newer(const std::string& name) {
  return name == "local_rope_theta" || name == "attention_scale";
}

/// Whether a number in it is beyond what an integer holds, to which nlohmann::json casts it unseen.
bool has_huge_number(const Json& json) {
  constexpr double two_to_63 = 9223372036854775808.0;
  if (json.is_number_float()) return std::abs(json.get<double>()) >= two_to_63;
  return json.is_structured() && std::any_of(json.begin(), json.end(), has_huge_number);
}

}  // namespace

const char* name_of(model::Activation activation) {
  constexpr const char* names[] = {"silu", "gelu_tanh", "gelu",           "gelu_new",
                                   "relu", "relu2",     "gelu_recomputed"};
  return names[static_cast<std::size_t>(activation)];
}

Json model_json(const model::ModelSpec& spec) {
  Json out = Json::object();
  visit(spec, [&](const char* name, const auto& member) { out[name] = member; });
  const model::ModelSpec defaults;
  if (spec.local_rope_theta == defaults.local_rope_theta) out.erase("local_rope_theta");
  if (spec.attention_scale == defaults.attention_scale) out.erase("attention_scale");
  visit_later(spec, [&](const char* name, const auto& member) {
    if (member != std::remove_cvref_t<decltype(member)>{}) out[name] = member;
  });
  out["activation"] = name_of(spec.activation);
  if (spec.attention_softcap) out["attention_softcap"] = *spec.attention_softcap;
  if (spec.final_softcap) out["final_softcap"] = *spec.final_softcap;
  if (spec.rope_scaling)
    out["rope_scaling"] = {{"type", spec.rope_scaling->type},
                           {"factor", spec.rope_scaling->factor},
                           {"low_freq_factor", spec.rope_scaling->low_freq_factor},
                           {"high_freq_factor", spec.rope_scaling->high_freq_factor},
                           {"original_positions", spec.rope_scaling->original_positions}};
  if (spec.moe)
    out["moe"] = {{"experts", spec.moe->experts},
                  {"top_k", spec.moe->top_k},
                  {"intermediate", spec.moe->intermediate},
                  {"normalize_top_k", spec.moe->normalize_top_k}};
  if (spec.moe && spec.moe->shared_intermediate > 0)
    out["moe"]["shared_intermediate"] = spec.moe->shared_intermediate;
  if (spec.moe && spec.moe->groups > 1) {
    out["moe"]["groups"] = spec.moe->groups;
    out["moe"]["top_groups"] = spec.moe->top_groups;
  }
  if (spec.moe && spec.moe->megatron && spec.family == "megatron") {
    visit_megatron(*spec.moe->megatron,
                   [&](const char* name, bool value) { out["moe"]["megatron"][name] = value; });
    visit_later_megatron(*spec.moe->megatron, [&](const char* name, bool value) {
      if (value) out["moe"]["megatron"][name] = true;
    });
    if (spec.moe->sigmoid_scores) out["moe"]["sigmoid_scores"] = true;
  }
  if (spec.latent)
    visit_latent(*spec.latent, [&](const char* name, auto value) { out["latent"][name] = value; });
  if (spec.moe && spec.moe->input_jitter) out["moe"]["input_jitter"] = true;
  if (spec.moe && spec.moe->unbalanced) out["moe"]["unbalanced"] = true;
  if (spec.moe && spec.moe->returns_logits) out["moe"]["returns_logits"] = true;
  if (spec.moe && spec.moe->scaling != 1.0) out["moe"]["scaling"] = spec.moe->scaling;
  if (spec.logits_multiplier) out["logits_multiplier"] = *spec.logits_multiplier;
  if (spec.embedding_multiplier) out["embedding_multiplier"] = *spec.embedding_multiplier;
  if (spec.residual_multiplier) out["residual_multiplier"] = *spec.residual_multiplier;
  if (spec.hidden_divisor) out["hidden_divisor"] = *spec.hidden_divisor;
  if (spec.logits_divisor) out["logits_divisor"] = *spec.logits_divisor;
  if (!spec.unrotated_block.empty()) out["unrotated_block"] = spec.unrotated_block;
  if (spec.delta) {
    visit_delta(*spec.delta, [&](const char* name, auto value) { out["delta"][name] = value; });
    out["delta_block"] = spec.delta_block;
  }
  if (spec.tower) {
    Json groups = Json::array();
    for (const model::TensorGroup& group : spec.tower->groups) {
      Json linears = Json::array();
      for (const model::EncoderLinear& linear : group.linears)
        linears.push_back({linear.name, linear.in, linear.out, linear.bias});
      groups.push_back(
          {{"times", group.times}, {"shapes", group.shapes}, {"linears", std::move(linears)}});
    }
    out["tower"] = {{"encoder", spec.tower->encoder}, {"groups", std::move(groups)}};
    const auto write = [&](const char* name, const auto& value) {
      out["tower"]["run"][name] = value;
    };
    if (spec.tower->run) visit_tower_run(*spec.tower->run, write);
    if (spec.tower->run && spec.tower->run->any_size()) {
      write("form", form_words[static_cast<std::size_t>(spec.tower->run->form)]);
      visit_patch_run(*spec.tower->run, write);
    }
  }
  return out;
}

model::ModelSpec read_model(const Json& json, const std::string& origin) {
  if (has_huge_number(json)) throw UserError(origin + ": \"model\" has a number beyond 2^63");
  model::ModelSpec spec;
  std::string field;
  try {
    visit(spec, [&](const char* name, auto& member) {
      field = name;
      if (is_newer(name) && !json.contains(name)) return;
      json.at(name).get_to(member);
    });
    visit_later(spec, [&](const char* name, auto& member) {
      field = name;
      if (json.contains(name)) json.at(name).get_to(member);
    });
    field = "activation";
    using enum model::Activation;
    spec.activation = gelu_tanh;
    for (const model::Activation known : {silu, gelu, gelu_new, relu, relu2, gelu_recomputed})
      if (json.at("activation") == name_of(known)) spec.activation = known;
    if (json.contains("attention_softcap"))
      spec.attention_softcap = json["attention_softcap"].get<double>();
    if (json.contains("final_softcap")) spec.final_softcap = json["final_softcap"].get<double>();
    if (json.contains("rope_scaling")) {
      field = "rope_scaling";
      const Json& rope = json["rope_scaling"];
      spec.rope_scaling = model::RopeScaling{
          rope.at("type").get<std::string>(), rope.at("factor").get<double>(),
          rope.at("low_freq_factor").get<double>(), rope.at("high_freq_factor").get<double>(),
          rope.at("original_positions").get<double>()};
    }
    if (json.contains("moe")) {
      field = "moe";
      const Json& moe = json["moe"];
      spec.moe = model::MoeSpec{
          moe.at("experts").get<std::int64_t>(), moe.at("top_k").get<std::int64_t>(),
          moe.at("intermediate").get<std::int64_t>(), moe.at("normalize_top_k").get<bool>()};
      if (moe.contains("shared_intermediate"))
        moe["shared_intermediate"].get_to(spec.moe->shared_intermediate);
      if (moe.contains("groups")) {
        moe["groups"].get_to(spec.moe->groups);
        moe.at("top_groups").get_to(spec.moe->top_groups);
      }
      if (moe.contains("input_jitter")) moe["input_jitter"].get_to(spec.moe->input_jitter);
      if (moe.contains("unbalanced")) moe["unbalanced"].get_to(spec.moe->unbalanced);
      if (moe.contains("returns_logits")) moe["returns_logits"].get_to(spec.moe->returns_logits);
      if (moe.contains("megatron"))
        visit_megatron(spec.moe->megatron.emplace(), [&](const char* name, bool& member) {
          moe["megatron"].at(name).get_to(member);
        });
      if (spec.moe->megatron)
        visit_later_megatron(*spec.moe->megatron, [&](const char* name, bool& member) {
          if (moe["megatron"].contains(name)) moe["megatron"][name].get_to(member);
        });
      if (moe.contains("sigmoid_scores")) moe["sigmoid_scores"].get_to(spec.moe->sigmoid_scores);
      if (moe.contains("scaling")) moe["scaling"].get_to(spec.moe->scaling);
    }
    if (json.contains("latent")) {
      field = "latent";
      visit_latent(spec.latent.emplace(),
                   [&](const char* name, auto& member) { json["latent"].at(name).get_to(member); });
    }
    const auto read_optional = [&](const char* name, std::optional<double>& member) {
      field = name;
      if (json.contains(name)) member = json[name].get<double>();
    };
    read_optional("embedding_multiplier", spec.embedding_multiplier);
    read_optional("residual_multiplier", spec.residual_multiplier);
    read_optional("logits_divisor", spec.logits_divisor);
    read_optional("hidden_divisor", spec.hidden_divisor);
    read_optional("logits_multiplier", spec.logits_multiplier);
    field = "unrotated_block";
    if (json.contains(field)) json[field].get_to(spec.unrotated_block);
    if (json.contains("delta")) {
      field = "delta";
      visit_delta(spec.delta.emplace(),
                  [&](const char* name, auto& member) { json["delta"].at(name).get_to(member); });
      json.at("delta_block").get_to(spec.delta_block);
    }
    if (json.contains("tower")) {
      field = "tower";
      model::Tower& tower = spec.tower.emplace();
      json["tower"].at("encoder").get_to(tower.encoder);
      for (const Json& group : json["tower"].at("groups")) {
        model::TensorGroup& to = tower.groups.emplace_back();
        group.at("times").get_to(to.times);
        group.at("shapes").get_to(to.shapes);
        if (!group.contains("linears")) continue;  // before they had names, weights were shapes
        for (const Json& linear : group["linears"])
          to.linears.push_back({linear.at(0).get<std::string>(), linear.at(1).get<std::int64_t>(),
                                linear.at(2).get<std::int64_t>(), linear.at(3).get<bool>()});
      }
      if (json["tower"].contains("run")) {
        const Json& run = json["tower"]["run"];
        const auto read = [&](const char* name, auto& member) { run.at(name).get_to(member); };
        visit_tower_run(tower.run.emplace(), read);
        if (run.contains("form")) {
          tower.run->form = tower_form(run.at("form").get<std::string>(), origin);
          visit_patch_run(*tower.run, read);
        }
      }
    }
    model::set_family_facts(spec);
  } catch (const nlohmann::json::exception&) {
    throw UserError(origin + ": \"model." + field +
                    "\" is missing or of another type; is this a profile that ac-advisor wrote?");
  }
  return spec;
}

}  // namespace ac_advisor::profile
