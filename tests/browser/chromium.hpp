#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ac_advisor::test {

/// A headless Chromium with one page, driven over its DevTools pipe. Throws std::runtime_error.
class Chromium {
 public:
  Chromium();
  ~Chromium();
  Chromium(const Chromium&) = delete;
  Chromium& operator=(const Chromium&) = delete;

  /// Loads the file and waits until it is loaded; `fragment` is "" or "#…". Forgets earlier
  /// problems.
  void open(const std::filesystem::path& file, const std::string& fragment = "");
  /// The value of a JavaScript expression; a promise is awaited.
  nlohmann::json evaluate(const std::string& expression);
  /// Pixels of the page, and the color scheme ("light", "dark") or medium ("print") it is shown in.
  void show_as(int width, int height, const std::string& scheme, const std::string& medium = "");
  /// A real press of the left button in the middle of the first element that matches.
  void click(const std::string& selector);
  void click(double x, double y);
  void move(double x, double y);
  /// "Tab", "Enter", "ArrowDown", …
  void press(const std::string& key);
  void type(const std::string& text);
  /// The whole page as a PNG.
  void screenshot(const std::filesystem::path& file);
  /// What the console, the script engine and the network had to complain about, and every request
  /// other than that for the file itself.
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  nlohmann::json call(const std::string& method,
                      nlohmann::json parameters = nlohmann::json::object());
  nlohmann::json receive();
  void notice(const nlohmann::json& event);

  std::filesystem::path folder_;
  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  int last_id_ = 0;
  std::string session_, url_, buffer_;
  std::vector<std::string> problems_;
};

}  // namespace ac_advisor::test
