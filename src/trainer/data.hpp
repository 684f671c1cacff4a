#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ac_advisor/model/step_config.hpp"

namespace ac_advisor::trainer {

/// Fills ids (rows, seq), int64, with rows [first, first + rows) of all that a run will see.
using Data = std::function<void(std::int64_t first, at::Tensor ids)>;

/// Of a row of a batch as it is read: a sequence, and where labels are shifted before ranks split
/// it, the token after it; of documents that are packed, the longest.
[[nodiscard]] std::int64_t tokens_of_row(const StepConfig& config);
/// Such rows of a micro-batch: its sequences, or the documents of its packed row.
[[nodiscard]] std::int64_t rows_of_batch(const StepConfig& config);
/// Where the documents of a packed row begin, and where the last one ends; the first ones are a
/// token longer where lengths differ.
[[nodiscard]] std::vector<std::int32_t> document_offsets(const StepConfig& config);

/// Byte-level tokens of a text: token = byte. Row r of a step's global batch is a window of it that
/// depends on (seed, row number) alone, so sharding and resuming do not change what is seen.
class TextData {
 public:
  /// `path` empty: the sample text that is built in. Throws UserError: unreadable, shorter than a
  /// window of `seq` bytes, or a vocabulary below 256.
  TextData(const std::string& path, std::int64_t seq, std::int64_t vocab, std::uint64_t seed);

  void operator()(std::int64_t first, at::Tensor ids) const;
  [[nodiscard]] std::size_t bytes() const { return text_.size(); }

 private:
  std::string text_;
  std::int64_t seq_;
  std::uint64_t seed_;
};

}  // namespace ac_advisor::trainer
