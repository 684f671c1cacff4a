#include "ac_advisor/reports/oom.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/oom/explain.hpp"
#include "cli/commands.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "files/byte_source.hpp"

namespace ac_advisor::cli {
namespace {

constexpr std::size_t most_bytes = std::size_t{256} << 20;  ///< of a log: its end is what matters

/// A log, compressed or not, whole or its end.
std::string log_text(const std::string& file) {
  const auto source = files::open_source(file);
  std::string text, piece(std::size_t{1} << 20, '\0');
  while (const std::size_t n = source->read(piece.data(), piece.size())) {
    text.append(piece, 0, n);
    if (text.size() > 2 * most_bytes) text.erase(0, text.size() - most_bytes);
  }
  return text;
}

}  // namespace

std::string run_oom(const Arguments& a) {
  if (a.format != "table" && a.format != "json")
    throw UserError("--format " + a.format + ": oom writes table or json");
  const bool has_model = a.positional.size() > 1;
  if (!has_model && (!a.options.empty() || !a.as.empty()))
    throw UserError("oom: " + (a.options.empty() ? std::string("--as") : a.options.front().first) +
                    " is an option of the step that is planned beside the error: give MODEL after "
                    "the file, too");
  const std::string& file = a.positional.at(0);
  if (has_model && file == "-" && a.positional[1] == "-")
    throw UserError("oom - -: standard input is the error's text or the model, not both");
  const std::string text = log_text(file);
  std::vector<oom::Error> errors = oom::read_errors(text);
  const std::int64_t flushes = oom::cache_flushes(text);
  if (errors.empty() && flushes == 0)
    throw UserError((file == "-" ? std::string("standard input") : file) +
                    ": has no out-of-memory error; what PyTorch writes begins like "
                    "\"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\"");
  oom::Explanation explanation;
  if (has_model) {
    const model::ModelSpec model = model::load_model(a.positional[1], a.as);
    OptionList options = a.options;
    const std::string device = oom::device_of(errors);
    if (!given(options, "--gpu") && !device.empty()) options.emplace_back("--gpu", device);
    explanation = oom::explain(std::move(errors), flushes, model, resolve(model, options));
    if (!given(options, "--gpu"))
      explanation.planned->profile.warnings.push_back(
          "no device that is known has the memory that the text tells: planned on " +
          explanation.planned->profile.device_name + "; give --gpu");
  } else {
    explanation = oom::explain(std::move(errors), flushes);
  }
  if (a.format == "json") return reports::json(explanation);
  return reports::table(explanation, terminal_style(a.output, a.rows));
}

}  // namespace ac_advisor::cli
