#include "trainer/weights/safetensors.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "trainer/stop.hpp"

namespace ac_advisor::trainer {
namespace {

using Json = nlohmann::json;

struct TypeName {
  const char* name;
  at::ScalarType type;
};
constexpr std::array types{TypeName{"F32", at::kFloat}, TypeName{"BF16", at::kBFloat16},
                           TypeName{"F16", at::kHalf},  TypeName{"F64", at::kDouble},
                           TypeName{"I64", at::kLong},  TypeName{"I32", at::kInt},
                           TypeName{"U8", at::kByte}};

// The format's own limit: 100 MB of header.
constexpr std::uint64_t largest_header = 100'000'000;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw UserError(path + ": " + what);
}

std::int64_t whole(const std::string& path, const std::string& at, const Json& value) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62) ||
      value.get<std::int64_t>() < 0)
    fail(path, at + " must be a non-negative integer");
  return value.get<std::int64_t>();
}

SafetensorsFile::Entry read_entry(const std::string& path, const std::string& name,
                                  const Json& json) {
  const std::string at = "tensor \"" + name + "\": ";
  if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets"))
    fail(path, at + "must have dtype, shape and data_offsets");
  SafetensorsFile::Entry entry;
  const Json &dtype = json["dtype"], &shape = json["shape"], &offsets = json["data_offsets"];
  const auto* const type =
      std::find_if(types.begin(), types.end(), [&](const TypeName& t) { return dtype == t.name; });
  if (type == types.end())
    fail(path, at + "dtype " + dtype.dump() +
                   " is not read; known: F32, BF16, F16, F64, I64, "
                   "I32, U8");
  entry.dtype = type->type;
  if (!shape.is_array()) fail(path, at + "shape must be a list");
  auto bytes = static_cast<std::int64_t>(at::elementSize(entry.dtype));
  for (const Json& size : shape) {
    entry.shape.push_back(whole(path, at + "shape", size));
    if (__builtin_mul_overflow(bytes, entry.shape.back(), &bytes))
      fail(path, at + "shape does not fit 64 bits");
  }
  if (!offsets.is_array() || offsets.size() != 2)
    fail(path, at + "data_offsets must be [begin, end]");
  entry.begin = whole(path, at + "data_offsets", offsets[0]);
  entry.end = whole(path, at + "data_offsets", offsets[1]);
  if (entry.end - entry.begin != bytes)
    fail(path, fmt::format("{}data_offsets hold {} bytes, dtype and shape need {}", at,
                           entry.end - entry.begin, bytes));
  return entry;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    fail(path, std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail(path, "is not a file; give a model.safetensors");
  std::ifstream file(path, std::ios::binary);
  std::array<unsigned char, 8> length{};
  if (!file.read(reinterpret_cast<char*>(length.data()), 8))
    fail(path, "is too short for a safetensors file (eight bytes of header length)");
  std::uint64_t header = 0;
  for (std::size_t i = 8; i-- > 0;) header = header << 8 | length[i];
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (header > largest_header || header + 8 > size)
    fail(path, fmt::format("says its header has {} bytes, the file has {}; is it a safetensors "
                           "file, whole?",
                           header, size));
  std::string text(header, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(header)))
    fail(path, "ends within its header");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) fail(path, "its header is not a JSON object");
  data_ = static_cast<std::int64_t>(header) + 8;
  for (const auto& [name, value] : json.items()) {
    if (name != "__metadata__") {
      entries_[name] = read_entry(path, name, value);
      continue;
    }
    if (!value.is_object()) fail(path, "__metadata__ must be an object of strings");
    for (const auto& [key, item] : value.items()) {
      if (!item.is_string()) fail(path, "__metadata__ must be an object of strings");
      metadata_[key] = item.get<std::string>();
    }
  }
  // Every byte belongs to one tensor, in order, without a gap.
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const auto& [name, entry] : entries_) order.emplace_back(entry.begin, name);
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.first, entries_[a.second].end) < std::pair(b.first, entries_[b.second].end);
  });
  std::int64_t end = 0;
  for (const auto& [begin, name] : order) {
    if (begin != end)
      fail(path, fmt::format("tensor \"{}\" begins at byte {}, the one before it ends at {}", name,
                             begin, end));
    end = entries_[name].end;
  }
  if (data_ + end != info.st_size)
    fail(path, fmt::format("its tensors end at byte {}, the file at {}; it is cut short or not "
                           "whole",
                           data_ + end, info.st_size));
}

void SafetensorsFile::read(const std::string& name, std::int64_t begin, std::int64_t end,
                           at::Tensor to) const {
  const Entry& entry = entries_.at(name);
  const auto width = static_cast<std::int64_t>(at::elementSize(entry.dtype));
  std::ifstream file(path_, std::ios::binary);
  file.seekg(data_ + entry.begin + begin * width);
  constexpr std::int64_t most = 1 << 20;  // elements at a time
  at::Tensor flat = to.view({-1});
  for (std::int64_t start = begin; start < end; start += most) {
    const std::int64_t n = std::min(most, end - start);
    at::Tensor part = at::empty({n}, at::TensorOptions().dtype(entry.dtype));
    if (!file.read(static_cast<char*>(part.mutable_data_ptr()), n * width))
      fail(path_, "tensor \"" + name + "\" could not be read to its end");
    flat.narrow(0, start - begin, n).copy_(part);
  }
}

void write_safetensors(const std::string& path,
                       const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto* const type = std::find_if(types.begin(), types.end(), [&](const TypeName& t) {
      return t.type == tensor.scalar_type();
    });
    TORCH_INTERNAL_ASSERT(type != types.end(), "a tensor of another type");
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    header[name] = {{"dtype", type->name},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto not_cut_off = writing_a_file();
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) fail(path, std::string("cannot be written: ") + std::strerror(errno));
  std::array<unsigned char, 8> length{};
  for (std::size_t i = 0; i < 8; ++i)
    length[i] = static_cast<unsigned char>(text.size() >> (8 * i) & 0xFF);
  bool good = std::fwrite(length.data(), 1, 8, file) == 8 &&
              std::fwrite(text.data(), 1, text.size(), file) == text.size();
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor dense = tensor.to(at::kCPU).contiguous();
    good = good && std::fwrite(dense.const_data_ptr(), 1, dense.nbytes(), file) == dense.nbytes();
  }
  good = std::fflush(file) == 0 && good && fsync(fileno(file)) == 0;
  const int error = errno;
  good = std::fclose(file) == 0 && good;
  if (!good || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(good ? errno : error);
    std::remove(temporary.c_str());
    fail(path, "cannot be written: " + why);
  }
}

}  // namespace ac_advisor::trainer
