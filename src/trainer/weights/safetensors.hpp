#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ac_advisor::trainer {

/// A file of tensors: eight bytes of header length, a JSON header, raw little-endian bytes
/// (huggingface/safetensors, its README's "Format"). The bytes are read when they are asked for.
class SafetensorsFile {
 public:
  struct Entry {
    at::ScalarType dtype = at::kFloat;
    std::vector<std::int64_t> shape;
    std::int64_t begin = 0, end = 0;  ///< bytes after the header
  };
  /// Checks the whole header: lengths, types, shapes, offsets without overlap or gap. Throws
  /// UserError naming file, tensor and what would be right.
  explicit SafetensorsFile(const std::string& path);

  [[nodiscard]] bool has(const std::string& name) const { return entries_.contains(name); }
  [[nodiscard]] const std::map<std::string, Entry>& entries() const { return entries_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Elements [begin, end) in row-major order, as `to.scalar_type()`, into `to` (contiguous).
  void read(const std::string& name, std::int64_t begin, std::int64_t end, at::Tensor to) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::int64_t data_ = 0;  ///< where the bytes begin in the file
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// Written whole: to a temporary file beside, which is then renamed. Throws UserError.
void write_safetensors(const std::string& path,
                       const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace ac_advisor::trainer
