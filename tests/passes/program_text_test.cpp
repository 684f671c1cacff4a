#include "ac_advisor/passes/program_text.hpp"

#include <doctest/doctest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "small_model.hpp"

namespace ac_advisor::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool has(const std::vector<std::string>& lines, const std::string& wanted) {
  for (const std::string& line : lines)
    if (line == wanted) return true;
  return false;
}

std::vector<std::string> text_of(const StepConfig& config) {
  return lines_of(passes::program_text(passes::build_step(small_model(), config)));
}

}  // namespace

TEST_CASE("an op's line has its values by module, shapes, dtypes and attributes") {
  const auto lines = text_of(small_config());
  CHECK(has(lines, "  %embed_tokens.parameter: bf16[512, 64]"));
  CHECK(has(lines, "forward blocks.0.attention.q_proj:"));
  // batch 2, seq 32, hidden 64: a linear layer without bias
  CHECK(has(lines,
            "  %blocks.0.attention.q_proj.mm: bf16[2, 32, 64] = mm(%blocks.0.norm1.mul.2, "
            "%blocks.0.attention.q_proj.parameter) {inner=64 form=nt}"));
  // its gradients: of the weight from 2 x 32 tokens, of the input from 64 columns
  bool weight = false, input = false;
  for (const std::string& line : lines) {
    weight = weight || line.find("%d.blocks.0.attention.q_proj.mm: bf16[64, 64] = mm(") == 2;
    input = input || line.find("%d.blocks.0.attention.q_proj.mm.2: bf16[2, 32, 64] = mm(") == 2;
    if (line.find("%d.blocks.0.attention.q_proj.mm: ") == 2)
      CHECK(line.find("{inner=64 form=tn}") != std::string::npos);
  }
  CHECK(weight);
  CHECK(input);
}

TEST_CASE("every value of the text is named once, before it is read") {
  StepConfig sharded = small_config();
  sharded.layout.shard = Sharding::fsdp2;
  sharded.layout.world = 2;
  sharded.memory.ac = AcMode::selective;
  sharded.run.grad_accum = 2;
  StepConfig fused = small_config();
  fused.memory.kernels = Kernels::fused;
  fused.memory.ac = AcMode::full;
  fused.memory.loss = LossKind::lc_ce;
  const std::regex value("%[A-Za-z0-9_.:]*[A-Za-z0-9_]");
  for (const StepConfig& config : {small_config(), sharded, fused}) {
    std::set<std::string> known;
    for (const std::string& line : text_of(config)) {
      // What stands before " = " is made here, but for what follows "over".
      const std::size_t made = line.find(" = ") == std::string::npos
                                   ? (line.find('(') == std::string::npos ? line.size() : 0)
                                   : line.find(" = ");
      for (std::sregex_iterator at(line.begin(), line.end(), value), end; at != end; ++at) {
        const std::string name = at->str();
        const auto place = static_cast<std::size_t>(at->position());
        const bool over = place >= 5 && line.compare(place - 5, 5, "over ") == 0;
        if (place < made && !over)
          known.insert(name);
        else {
          INFO(line);
          CHECK(known.contains(name));
        }
      }
    }
  }
}

TEST_CASE("another block moves no line of the blocks that were there") {
  model::ModelSpec longer = small_model();
  longer.layers = 5;
  longer.window.assign(5, 0);
  const auto lines = text_of(small_config());
  const auto more = lines_of(passes::program_text(passes::build_step(longer, small_config())));
  const std::set<std::string> all(more.begin(), more.end());
  int missing = 0;
  for (const std::string& line : lines) missing += all.contains(line) ? 0 : 1;
  // The totals; the readers of the last block's output, which is now another's, and the
  // optimizer's lists.
  CHECK(missing < 20);
  CHECK(lines.size() > 400);
}

TEST_CASE("an op that writes in place says over what") {
  StepConfig c = small_config();
  c.memory.kernels = Kernels::fused;
  bool rotated = false;
  for (const std::string& line : text_of(c))
    rotated = rotated || (line.find("%blocks.0.attention.rope.rope: ") == 2 &&
                          line.find(" over %blocks.0.attention.q_proj.mm") != std::string::npos);
  CHECK(rotated);
}

}  // namespace ac_advisor::test
