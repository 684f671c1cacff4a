#include "device_figures.hpp"

#include <cmath>
#include <cstdlib>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::simulate {

using nlohmann::json;

const json* Figures::find(const std::string& path) const {
  const json* node = &root_;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, end - begin);
    if (!node->is_object() || !node->contains(key)) return nullptr;
    node = &(*node)[key];
    begin = end + 1;
  }
  return node;
}

const json& Figures::at(const std::string& path) const {
  const json* node = find(path);
  if (node == nullptr) throw UserError(origin_ + ": \"" + path + "\" is missing");
  return node->is_object() && node->contains("value") ? (*node)["value"] : *node;
}

void Figures::refuse(const std::string& path, const std::string& what) const {
  throw UserError(origin_ + ": \"" + path + "\" is " +
                  at(path).dump(-1, ' ', false, json::error_handler_t::replace) + "; it must be " +
                  what);
}

double Figures::number(const std::string& path, const Range& range) const {
  const json& value = at(path);
  if (!value.is_number()) refuse(path, range.what);
  const double number = value.get<double>();
  const bool inside = number >= range.least && number <= range.most;  // false for NaN
  if (!inside || (range.whole && number != std::floor(number))) refuse(path, range.what);
  return number;
}

std::string Figures::text(const std::string& path) const {
  const json& value = at(path);
  if (!value.is_string()) refuse(path, "a string");
  return value.get<std::string>();
}

std::int64_t Figures::capability(const std::string& path) const {
  const std::string value = text(path);
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (end == value.c_str() || *end != '\0' || !(number >= 0 && number < 100))
    refuse(path, "like \"9.0\"");
  return static_cast<std::int64_t>(number * 10.0 + 0.5);
}

}  // namespace ac_advisor::simulate
