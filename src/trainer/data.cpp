#include "trainer/data.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "ac_advisor/model/error.hpp"
#include "embedded/embedded.hpp"
#include "trainer/kernels/counter_rng.hpp"

namespace ac_advisor::trainer {
namespace {

constexpr const char* sample_text = "sample_models/data/sonnets.txt";
constexpr std::size_t largest = std::size_t{1} << 30;

std::string read_text(const std::string& path) {
  if (path.empty())
    for (const embedded::File& file : embedded::files())
      if (file.path == sample_text) return std::string(file.text);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(path + ": cannot be read: " + std::strerror(errno));
  std::string text;
  char part[1 << 16];
  while (file.read(part, sizeof part) || file.gcount() > 0) {
    text.append(part, static_cast<std::size_t>(file.gcount()));
    if (text.size() > largest)
      throw UserError(path + ": more than 1 GiB; give a part of it as --data");
  }
  if (file.bad()) throw UserError(path + ": cannot be read; give a text file as --data");
  return text;
}

}  // namespace

std::int64_t tokens_of_row(const StepConfig& config) {
  return config.attended_tokens() + (config.run.labels_shifted || config.layout.cp > 1 ? 1 : 0);
}

std::int64_t rows_of_batch(const StepConfig& config) {
  return config.run.packing > 0 ? config.run.packing : config.run.batch;
}

std::vector<std::int32_t> document_offsets(const StepConfig& config) {
  const std::int64_t tokens = config.run.batch * config.run.seq, documents = config.run.packing;
  std::vector<std::int32_t> offsets{0};
  for (std::int64_t i = 0; i < documents; ++i)
    offsets.push_back(offsets.back() + static_cast<std::int32_t>(tokens / documents +
                                                                 (i < tokens % documents ? 1 : 0)));
  return offsets;
}

TextData::TextData(const std::string& path, std::int64_t seq, std::int64_t vocab,
                   std::uint64_t seed)
    : text_(read_text(path)), seq_(seq), seed_(seed) {
  const std::string origin = path.empty() ? "the sample text" : path;
  if (vocab < 256)
    throw UserError(
        fmt::format("--data: tokens are bytes, the model's \"vocab_size\" is {}; it "
                    "must be at least 256",
                    vocab));
  if (text_.size() < static_cast<std::size_t>(seq))
    throw UserError(fmt::format("{}: {} bytes are shorter than one sequence of --seq {}", origin,
                                text_.size(), seq));
}

void TextData::operator()(std::int64_t first, at::Tensor ids) const {
  auto rows = ids.accessor<std::int64_t, 2>();
  const auto starts =
      static_cast<std::uint64_t>(text_.size()) - static_cast<std::uint64_t>(seq_) + 1;
  for (std::int64_t r = 0; r < ids.size(0); ++r) {
    const std::uint64_t row = combine(mix(seed_), static_cast<std::uint64_t>(first + r));
    const std::size_t start = row % starts;
    for (std::int64_t t = 0; t < seq_; ++t)
      rows[r][t] = static_cast<unsigned char>(text_[start + static_cast<std::size_t>(t)]);
  }
}

}  // namespace ac_advisor::trainer
