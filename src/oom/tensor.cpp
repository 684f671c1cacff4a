#include "tensor.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "ac_advisor/passes/passes.hpp"

namespace ac_advisor::oom {
namespace {

constexpr std::int64_t mib = 1 << 20, most_rows = std::int64_t{1} << 24;
constexpr std::size_t most_candidates = 8;

/// Vocabularies that many published models have, as their config.json says, the year of the first
/// of them, and the model_type of those models in transformers.
struct Vocabulary {
  std::int64_t size;
  const char* models;
  int since;
  std::array<std::string_view, 4> types;  ///< empty: no further one
};
constexpr Vocabulary vocabularies[] = {
    {151936, "Qwen 2, 2.5 and 3", 2023, {"qwen2", "qwen3", "qwen3_moe", "qwen2_moe"}},
    {152064, "Qwen 2.5 from 7B on", 2024, {"qwen2", "qwen2_5_vl", "qwen2_vl"}},
    {128256, "Llama 3", 2024, {"llama", "mllama"}},
    {248320, "Qwen 3.5", 2026, {"qwen3_5", "qwen3_5_moe"}},
    {262144, "Gemma 3", 2025, {"gemma3", "gemma4"}},
    {262208, "Gemma 3 with images", 2025, {"gemma3"}},
    {256000, "Gemma 1 and 2", 2024, {"gemma", "gemma2"}},
    {32000, "Llama 2, Mistral", 2023, {"llama", "mistral", "mixtral"}},
    {131072, "Mistral Nemo, Small", 2024, {"mistral", "mistral3"}},
    {129280, "DeepSeek V3", 2024, {"deepseek_v3"}},
    {102400, "DeepSeek V2", 2023, {"deepseek_v2"}},
    {201088, "gpt-oss", 2025, {"gpt_oss"}},
    {200064, "Phi 4 mini", 2025, {"phi3"}},
    {100352, "Phi 4, OLMo 2", 2024, {"phi3", "olmo2"}},
    {32064, "Phi 3", 2024, {"phi3"}},
    {151552, "GLM 4", 2024, {"glm", "glm4"}},
    {49152, "SmolLM", 2024, {"llama"}},
    {50257, "GPT-2", 2019, {"gpt2"}}};
constexpr int last_of_old_wording = 2023;  ///< PyTorch 2.1, of that October, writes it anew

enum class Rows : std::uint8_t { tokens, pairs, none };

/// A tensor of a step: rows of tokens, a number for each two tokens of a sequence, or neither.
struct Form {
  Role role;
  std::string what;
  Rows rows;
  std::int64_t width;
  std::vector<std::int64_t> elements;  ///< bytes of one, the likelier first
  int since = 0;                       ///< a year: of the models that have it
};

/// Elements of DeepSpeed's buckets: reduce_bucket_size and allgather_bucket_size by default
/// (runtime/zero/config.py), and of Transformers' documented configuration of ZeRO 2.
constexpr std::int64_t zero_buckets[] = {500'000'000, 200'000'000};

void add_buckets(std::vector<Form>& forms) {
  for (const std::int64_t elements : zero_buckets)
    forms.push_back({Role::gradient, "a bucket of ZeRO's", Rows::none, elements, {2, 4}});
}

std::int64_t stored_size(const StepConfig& c) { return size_of(c.precision.param_dtype); }

void add_fixed(std::vector<Form>& forms, Role role, const std::string& what, std::int64_t n,
               const StepConfig& c) {
  if (n <= 0) return;
  const std::int64_t stored = stored_size(c);
  std::vector<std::int64_t> sizes{stored};
  for (const std::int64_t size : {2, 4, 1})
    if (size != stored) sizes.push_back(size);
  forms.push_back({role, what, Rows::none, n, sizes});
  const std::int64_t ranks = c.layout.replica_ranks();
  if (ranks > 1)
    forms.push_back({role, what + ", one rank's part", Rows::none, (n + ranks - 1) / ranks, sizes});
}

constexpr std::string_view in_four_bits = "in 4 bits";

/// bitsandbytes' Params4bit: two elements a byte.
void add_four_bits(std::vector<Form>& forms, const StepConfig& c) {
  if (!c.adapters.four_bit()) return;
  const std::size_t whole = forms.size();
  for (std::size_t i = 0; i < whole; ++i)
    if (forms[i].role == Role::parameter && forms[i].rows == Rows::none)
      forms.push_back({Role::parameter,
                       forms[i].what + ' ' + std::string(in_four_bits) + ", two elements a byte",
                       Rows::none,
                       (forms[i].width + 1) / 2,
                       {1}});
}

/// Numbers of logits: bf16 or fp32. A sort of them (aten/src/ATen/native/cuda/SortStable.cu, v2.11)
/// has an index of 8 bytes beside each, and cub's scratch is another such pair.
std::vector<std::int64_t> logits_elements(const Marks& marks) {
  const bool sorted = marks.words.find("sorted") != std::string::npos;
  return sorted ? std::vector<std::int64_t>{12, 8, 4} : std::vector<std::int64_t>{4, 2};
}

std::vector<Form> forms_of(const model::ModelSpec& m, const StepConfig& c, const Marks& marks) {
  // vLLM's layers have them in one, whatever the model's own have.
  const bool engine = marks.words.find("engine") != std::string::npos;
  const std::int64_t tp = c.layout.tp;
  std::vector<Form> forms;
  if (c.layout.zero()) add_buckets(forms);
  const auto tokens = [&](Role role, const char* what, std::int64_t width,
                          std::vector<std::int64_t> elements) {
    if (width > 0) forms.push_back({role, what, Rows::tokens, width, std::move(elements)});
  };
  tokens(Role::logits, "logits", m.vocab, logits_elements(marks));
  if (tp > 1) {
    const std::int64_t part = (m.vocab + tp - 1) / tp,
                       padded = passes::megatron_vocabulary(m.vocab, tp) / tp;
    tokens(Role::logits, "logits of this rank's vocabulary", part, logits_elements(marks));
    if (padded != part)
      tokens(Role::logits, "logits of this rank's vocabulary, padded as Megatron does", padded,
             logits_elements(marks));
  }
  tokens(Role::activation, "an MLP's activation", m.intermediate / tp, {2, 4});
  if (m.fused_gate_up)
    tokens(Role::activation, "an MLP's gate and up projection", 2 * m.intermediate / tp, {2, 4});
  tokens(Role::activation, "hidden states", m.hidden, {2, 4});
  if (m.heads * m.head_dim != m.hidden)
    tokens(Role::activation, "queries", m.heads * m.head_dim / tp, {2, 4});
  if (m.moe) {
    tokens(Role::activation, "the experts' activation", m.moe->top_k * m.moe->intermediate / tp,
           {2, 4});
    tokens(Role::activation, "tokens as experts have them", m.moe->top_k * m.hidden, {2, 4});
  }
  tokens(Role::kv_cache, "keys or values of one layer", m.kv_heads * m.head_dim / tp, {2});
  tokens(Role::kv_cache, "keys and values of all layers",
         2 * m.layers * m.kv_heads * m.head_dim / tp, {2});
  forms.push_back({Role::scores, "attention scores", Rows::pairs, m.heads / tp, {2, 4}});
  forms.push_back({Role::mask, "an attention mask", Rows::pairs, 1, {2, 1, 4, 8}});

  const std::int64_t table = m.vocab * m.hidden, all = model::parameter_count(m);
  const std::int64_t ends = (m.tied_embeddings ? 1 : 2) * table;
  add_fixed(forms, Role::parameter, "the embedding's or the LM head's weight", table, c);
  if (!m.moe || m.moe->intermediate != m.intermediate)
    add_fixed(forms, Role::parameter, "an MLP's weight", m.hidden * m.intermediate, c);
  if (m.fused_gate_up || engine)
    add_fixed(forms, Role::parameter, "an MLP's gate and up weight", 2 * m.hidden * m.intermediate,
              c);
  add_fixed(forms, Role::parameter, "attention's query or output weight",
            m.hidden * m.heads * m.head_dim, c);
  if (m.fused_qkv || engine)
    add_fixed(forms, Role::parameter, "attention's query, key and value weight in one",
              m.hidden * (m.heads + 2 * m.kv_heads) * m.head_dim, c);
  if (m.moe) {
    add_fixed(forms, Role::parameter, "one expert's weight", m.hidden * m.moe->intermediate, c);
    add_fixed(forms, Role::parameter, "a layer's experts, one projection of them",
              m.moe->experts * m.hidden * m.moe->intermediate, c);
    add_fixed(forms, Role::parameter, "a layer's experts, gate and up",
              2 * m.moe->experts * m.hidden * m.moe->intermediate, c);
  }
  if (m.layers > 0 && all > ends) {
    add_fixed(forms, Role::gathered, "a block's parameters", (all - ends - m.hidden) / m.layers, c);
    add_fixed(forms, Role::gathered, "the embedding and the LM head", ends, c);
  }
  add_fixed(forms, Role::state, "all parameters in one piece", all, c);
  add_four_bits(forms, c);
  return forms;
}

/// Rounder numbers are likelier: what people ask for is a multiple of a power of two.
int roundness(std::int64_t n) {
  const int zeros = std::countr_zero(static_cast<std::uint64_t>(n));
  return zeros >= 10 ? 4 : zeros >= 8 ? 3 : zeros >= 6 ? 1 : 0;
}

/// Of so many vocabularies one or another has any size in rows that are no round number, and in a
/// wide range of them in rather round ones: a unit of 150 ranges is met by one of the 36
/// products in a quarter of all texts.
bool met_by_chance(const Candidate& c, const Marks& marks) {
  // A sampler's rows are sequences, of which vLLM takes so many by default (max_num_seqs).
  if (marks.words.find("sorted") != std::string::npos) return c.rows != 256 && c.rows != 1024;
  constexpr std::int64_t least_unit = 1024, ranges = 150;
  const std::int64_t range = c.most_rows - c.least_rows + 1, unit = c.rows & -c.rows;
  return unit < std::max(least_unit, range * ranges);
}

std::int64_t roundest(std::int64_t least, std::int64_t most) {
  for (int zeros = 24; zeros > 0; --zeros) {
    const std::int64_t unit = std::int64_t{1} << zeros, n = (most / unit) * unit;
    if (n >= least && n > 0) return n;
  }
  return least;
}

std::int64_t planned_rows(const StepConfig& c) { return c.rows() * c.local_seq(); }

/// Rows that the configuration has: its tokens, without each sequence's last, or a chunk of them.
bool is_planned(std::int64_t least, std::int64_t most, const StepConfig& c, std::int64_t& rows) {
  for (const std::int64_t n : {planned_rows(c), c.rows() * (c.local_seq() - 1),
                               c.memory.chunk_tokens > 0 ? c.memory.chunk_tokens : planned_rows(c)})
    if (least <= n && n <= most) {
      rows = n;
      return true;
    }
  return false;
}

/// A pass takes as many tokens as are planned, or a few times as many where lengths vary; the more
/// are needed, the less likely it is.
int beyond_plan(std::int64_t rows, const StepConfig& c) {
  const std::int64_t times = rows / std::max<std::int64_t>(1, planned_rows(c));
  return times < 8 ? 0 : times < 64 ? 3 : 12;
}

int score_of(const Candidate& c, const Marks& marks, std::size_t place) {
  int score = place == 0 ? 1 : 0;
  if (marks.role != Role::unknown) score += c.role == marks.role ? 10 : -8;
  if (marks.role == Role::gathered && c.role == Role::parameter) score += 14;
  const bool part = c.what.find("one rank's part") != std::string::npos;
  if (marks.role == Role::gathered && part) score -= 6;  // what is gathered is whole
  if (marks.words.find(in_four_bits) != std::string::npos)
    score += c.what.find(in_four_bits) != std::string::npos ? 4 : 0;
  if ((marks.role == Role::gradient || marks.role == Role::temporary) && c.rows == 0) score += 16;
  if (marks.role == Role::state && c.rows == 0) score += 15;
  const bool common = c.role == Role::logits || c.role == Role::gradient;
  if (marks.role == Role::unknown && common) score += 3;
  if (marks.phase == "generation" && c.role == Role::kv_cache) score += 3;
  if (marks.phase == "set-up" && c.rows > 0) score -= 10;
  if (marks.phase == "optimizer" && c.rows > 0) score -= 10;
  if (marks.element != 0) score += marks.element == c.element ? 3 : -3;
  if (marks.width != 0) score += marks.width == c.width ? 8 : -6;
  if (marks.words.find("fp32") != std::string::npos) score += c.element == 4 ? 3 : -3;
  if (c.rows == 0) return score + 4;
  return score + (c.planned ? 6 : roundness(c.rows));
}

void match_tokens(const Form& form, const Range& asked, const Marks& marks,
                  const StepConfig* config, bool old_wording, std::vector<Candidate>& into) {
  for (std::size_t i = 0; i < form.elements.size(); ++i) {
    const std::int64_t row = form.width * form.elements[i];
    Candidate c{form.role, form.what};
    c.width = form.width;
    c.element = form.elements[i];
    c.least_rows = (asked.least + row - 1) / row;
    c.most_rows = asked.most / row;
    if (c.least_rows < 1) c.least_rows = 1;
    if (c.most_rows < c.least_rows || c.most_rows > most_rows) continue;
    c.rows = roundest(c.least_rows, c.most_rows);
    c.planned = config != nullptr && is_planned(c.least_rows, c.most_rows, *config, c.rows);
    c.score = score_of(c, marks, i);
    if (config != nullptr) c.score -= beyond_plan(c.rows, *config);
    if (old_wording && form.since > last_of_old_wording) c.score -= 2;
    into.push_back(std::move(c));
  }
}

void match_pairs(const Form& form, const Range& asked, const Marks& marks, const StepConfig* config,
                 std::vector<Candidate>& into) {
  const std::int64_t sequences = config != nullptr ? config->rows() : 1;
  for (std::size_t i = 0; i < form.elements.size(); ++i) {
    const double pair = static_cast<double>(form.width * form.elements[i] * sequences);
    Candidate c{form.role, form.what};
    c.width = form.width;
    c.element = form.elements[i];
    c.sequences = sequences;
    c.least_rows =
        static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(asked.least) / pair)));
    c.most_rows =
        static_cast<std::int64_t>(std::floor(std::sqrt(static_cast<double>(asked.most) / pair)));
    if (c.least_rows < 64 || c.most_rows < c.least_rows || c.most_rows > most_rows) continue;
    c.rows = roundest(c.least_rows, c.most_rows);
    if (config != nullptr && c.least_rows <= config->run.seq && config->run.seq <= c.most_rows) {
      c.rows = config->run.seq;
      c.planned = true;
    }
    c.score = score_of(c, marks, i) - (marks.role == form.role ? 0 : 3);
    into.push_back(std::move(c));
  }
}

void match_fixed(const Form& form, const Range& asked, const Marks& marks,
                 std::vector<Candidate>& into) {
  for (std::size_t i = 0; i < form.elements.size(); ++i) {
    const std::int64_t bytes = form.width * form.elements[i];
    if (bytes < asked.least || bytes > asked.most) continue;
    Candidate c{form.role, form.what};
    c.width = form.width;
    c.element = form.elements[i];
    c.planned = true;
    c.score = score_of(c, marks, i);
    into.push_back(std::move(c));
  }
}

bool of_type(const Vocabulary& v, std::string_view type) {
  return type.empty() || std::find(v.types.begin(), v.types.end(), type) != v.types.end();
}

/// What the vocabularies of well-known models make of it, where the rows are round.
std::vector<Form> known_vocabularies(const Marks& marks) {
  std::vector<Form> forms;
  if (marks.width > 0)
    return {{marks.role == Role::unknown ? Role::activation : marks.role,
             "rows",
             Rows::tokens,
             marks.width,
             {marks.element > 0 ? marks.element : 2}}};
  if (marks.role == Role::gradient || marks.role == Role::unknown) add_buckets(forms);
  if (marks.role != Role::logits && marks.role != Role::unknown) return forms;
  for (const Vocabulary& v : vocabularies)
    if (of_type(v, marks.model_type))
      forms.push_back({Role::logits, std::string("logits, of ") + v.models, Rows::tokens, v.size,
                       logits_elements(marks), v.since});
  return forms;
}

}  // namespace

std::int64_t Candidate::bytes() const {
  if (rows == 0) return width * element;
  const bool pairs = role == Role::scores || role == Role::mask;
  return (pairs ? sequences * rows * rows : rows) * width * element;
}

Range asked_for(const Amount& told) {
  constexpr std::int64_t small = 2 * mib, large = 20 * mib;
  if (told.least() <= small) return {1, mib};
  if (told.least() <= large && large <= told.most() && told.slack < mib)
    return {mib + 1, told.most()};
  return {std::max<std::int64_t>(1, told.least() - 2 * mib + 1), told.most()};
}

std::vector<Candidate> candidates(const Error& error, const Marks& marks,
                                  const model::ModelSpec* model, const StepConfig* config) {
  const Range asked = asked_for(*error.requested);
  std::vector<Candidate> found;
  if (asked.least <= mib + 1) return found;  // a segment that very different tensors share
  std::vector<Form> forms = model != nullptr && config != nullptr ? forms_of(*model, *config, marks)
                                                                  : known_vocabularies(marks);
  if (model != nullptr && marks.width > 0)
    for (Form& form : known_vocabularies(marks)) forms.push_back(std::move(form));
  for (const Form& form : forms) {
    if (form.width <= 0) continue;
    if (form.rows == Rows::tokens)
      match_tokens(form, asked, marks, config, error.old_wording, found);
    if (form.rows == Rows::pairs) match_pairs(form, asked, marks, config, found);
    if (form.rows == Rows::none) match_fixed(form, asked, marks, found);
  }
  constexpr int said = 3;  // by something beside its size
  const bool whose = model != nullptr || (marks.role == Role::logits && !marks.model_type.empty());
  if (!whose)
    std::erase_if(found, [&](const Candidate& c) {
      return c.width != marks.width && c.rows > 0 && met_by_chance(c, marks);
    });
  std::erase_if(found, [](const Candidate& c) { return c.score < said; });
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  if (found.size() > most_candidates) found.resize(most_candidates);
  return found;
}

}  // namespace ac_advisor::oom
