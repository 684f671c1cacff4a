#pragma once

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/profile/profile.hpp"
#include "model_record.hpp"

namespace ac_advisor::profile {

template <typename T>
Json by_phase(const std::array<T, 5>& values) {
  Json out = Json::object();
  for (std::size_t i = 0; i < values.size(); ++i) out[phase_names[i]] = values[i];
  return out;
}

/// Typed access that names the path of what is wrong.
class Reader {
 public:
  using Absent = std::map<std::string, std::string>;
  Reader(const Json& node, std::string origin, std::string path, const Absent& absent)
      : node_(node), origin_(std::move(origin)), path_(std::move(path)), absent_(absent) {}

  [[nodiscard]] Reader at(const std::string& key) const {
    if (is_absent()) return *this;
    if (!node_.is_object()) fail("must be an object");
    const auto found = node_.find(key);
    const std::string path = path_.empty() ? key : path_ + "." + key;
    if (found == node_.end())
      throw UserError(origin_ + ": \"" + path +
                      "\" is missing; is this a profile that "
                      "ac-advisor wrote?");
    return {*found, origin_, path, absent_};
  }
  void operator>>(std::int64_t& v) const {
    if (is_absent()) return;
    if (!node_.is_number_integer()) fail("must be an integer");
    v = node_.get<std::int64_t>();
  }
  void operator>>(double& v) const {
    if (is_absent()) return;
    if (!node_.is_number()) fail("must be a number");
    v = node_.get<double>();
  }
  void operator>>(bool& v) const {
    if (is_absent()) return;
    if (!node_.is_boolean()) fail("must be true or false");
    v = node_.get<bool>();
  }
  void operator>>(std::string& v) const {
    if (is_absent()) return;
    if (!node_.is_string()) fail("must be a string");
    v = node_.get<std::string>();
  }
  template <typename T>
  void operator>>(std::array<T, 5>& v) const {
    if (is_absent()) return;
    for (std::size_t i = 0; i < v.size(); ++i) at(phase_names[i]) >> v[i];
  }
  void operator>>(std::vector<std::string>& v) const {
    for (const Json& item : list()) {
      v.emplace_back();
      Reader(item, origin_, path_ + "[]", absent_) >> v.back();
    }
  }
  [[nodiscard]] const Json& list() const {
    static const Json none = Json::array();
    if (is_absent()) return none;
    if (!node_.is_array()) fail("must be a list");
    return node_;
  }
  [[nodiscard]] const Json& json() const { return node_; }
  [[nodiscard]] Reader item(const Json& node) const {
    return {node, origin_, path_ + "[]", absent_};
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(origin_ + ": \"" + path_ + "\" " + what);
  }

  /// Null, with its reason among the absent ones; so is all that it would hold.
  [[nodiscard]] bool is_absent() const { return node_.is_null() && absent_.contains(path_); }

 private:
  const Json& node_;
  std::string origin_, path_;
  const Absent& absent_;
};

}  // namespace ac_advisor::profile
