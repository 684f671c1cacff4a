#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "ac_advisor/profile/profile.hpp"
#include "json/node.hpp"

namespace ac_advisor::profile {

using json::Json;

template <typename T>
Json by_phase(const std::array<T, 5>& values) {
  Json out = Json::object();
  for (std::size_t i = 0; i < values.size(); ++i) out[phase_names[i]] = values[i];
  return out;
}

/// A part of a saved profile. What was not measured is null there, with its reason under `absent`:
/// it, and all that it would hold, keeps the value that it has.
class Reader {
 public:
  using Absent = std::map<std::string, std::string>;
  /// Both must outlive it.
  Reader(json::Node node, const Absent& absent) : node_(std::move(node)), absent_(&absent) {}

  [[nodiscard]] bool is_absent() const {
    return node_.is_null() && absent_->contains(node_.path());
  }
  [[nodiscard]] bool has(const char* key) const { return node_.has(key); }
  [[nodiscard]] Reader at(const std::string& key) const {
    return is_absent() ? *this : Reader(node_.at(key), *absent_);
  }
  [[nodiscard]] std::vector<Reader> list() const {
    std::vector<Reader> items;
    if (is_absent()) return items;
    for (json::Node& item : node_.list()) items.emplace_back(std::move(item), *absent_);
    return items;
  }
  [[nodiscard]] std::vector<std::pair<std::string, Reader>> members() const {
    std::vector<std::pair<std::string, Reader>> items;
    if (is_absent()) return items;
    for (auto& [key, item] : node_.members())
      items.emplace_back(key, Reader(std::move(item), *absent_));
    return items;
  }

  void operator>>(std::int64_t& v) const {
    if (!is_absent()) v = node_.integer();
  }
  void operator>>(double& v) const {
    if (!is_absent()) v = node_.number();
  }
  void operator>>(bool& v) const {
    if (!is_absent()) v = node_.truth();
  }
  void operator>>(std::string& v) const {
    if (!is_absent()) v = node_.text();
  }
  template <typename T>
  void operator>>(std::array<T, 5>& v) const {
    for (std::size_t i = 0; i < v.size(); ++i) at(phase_names[i]) >> v[i];
  }
  template <typename T>
  void operator>>(std::vector<T>& v) const {
    for (const Reader& item : list()) item >> v.emplace_back();
  }
  template <typename T>
  void operator>>(std::map<std::string, T>& v) const {
    for (const auto& [key, item] : members()) item >> v[key];
  }

  [[nodiscard]] const json::Node& node() const { return node_; }

 private:
  json::Node node_;
  const Absent* absent_;
};

/// The two directions of one visit of a struct's fields: `io("step_seconds", time.step)`.
struct Writing {
  Json& out;
  template <typename T>
  void operator()(const char* key, const T& value) const {
    out[key] = value;
  }
  template <typename T>
  void operator()(const char* key, const std::array<T, 5>& value) const {
    out[key] = by_phase(value);
  }
};
struct Reading {
  const Reader& from;
  template <typename T>
  void operator()(const char* key, T& value) const {
    from.at(key) >> value;
  }
};

}  // namespace ac_advisor::profile
