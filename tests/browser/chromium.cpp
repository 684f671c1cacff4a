#include "browser/chromium.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>

namespace ac_advisor::test {
namespace {

using nlohmann::json;
constexpr int patience_ms = 60'000;

/// The child's ends must not be 3 or 4, which become copies of them.
std::array<int, 2> high_pipe() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  for (int& end : ends) {
    const int high = fcntl(end, F_DUPFD_CLOEXEC, 10);
    close(end);
    end = high;
  }
  return ends;
}

[[noreturn]] void become_chromium(const std::string& folder) {
  const std::string profile = "--user-data-dir=" + folder;
  for (const char* program : {"chromium", "chromium-browser", "google-chrome"})
    execlp(program, program, "--headless=new", "--no-sandbox", "--disable-gpu",
           "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--hide-scrollbars",
           "--force-device-scale-factor=1", "--remote-debugging-pipe", profile.c_str(),
           "about:blank", nullptr);
  _exit(127);
}

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0, held = 0;
  for (char c : text) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string::npos) break;
    bits = (bits << 6U) | static_cast<unsigned>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>((bits >> held) & 0xFFU);
  }
  return bytes;
}

}  // namespace

Chromium::Chromium() {
  std::string name =
      (std::filesystem::temp_directory_path() / "ac_advisor_chromium.XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = name;
  const auto commands = high_pipe(), answers = high_pipe();
  process_ = fork();
  if (process_ < 0) throw std::runtime_error("no process");
  if (process_ == 0) {
    dup2(commands[0], 3);
    dup2(answers[1], 4);
    const int nowhere = ::open("/dev/null", O_RDWR);
    dup2(nowhere, 1);
    dup2(nowhere, 2);
    become_chromium(folder_.string());
  }
  close(commands[0]);
  close(answers[1]);
  to_ = commands[1];
  from_ = answers[0];
  std::signal(SIGPIPE, SIG_IGN);
  const std::string target = call("Target.createTarget", {{"url", "about:blank"}}).at("targetId");
  session_ =
      call("Target.attachToTarget", {{"targetId", target}, {"flatten", true}}).at("sessionId");
  for (const char* domain : {"Page", "Runtime", "Log", "Network"})
    call(std::string(domain) + ".enable");
}

Chromium::~Chromium() {
  close(to_);  // it ends when its pipe does
  close(from_);
  for (int tries = 0; tries < 100 && waitpid(process_, nullptr, WNOHANG) == 0; ++tries)
    usleep(50'000);
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, WNOHANG);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

json Chromium::receive() {
  for (;;) {
    if (const std::size_t end = buffer_.find('\0'); end != std::string::npos) {
      json message = json::parse(buffer_.substr(0, end));
      buffer_.erase(0, end + 1);
      return message;
    }
    pollfd ready{from_, POLLIN, 0};
    if (poll(&ready, 1, patience_ms) <= 0) throw std::runtime_error("Chromium does not answer");
    std::array<char, 65536> bytes{};
    const ssize_t n = read(from_, bytes.data(), bytes.size());
    if (n <= 0) throw std::runtime_error("Chromium has ended; is it installed?");
    buffer_.append(bytes.data(), static_cast<std::size_t>(n));
  }
}

void Chromium::notice(const json& event) {
  const std::string method = event.value("method", "");
  const json parameters = event.value("params", json::object());
  if (method == "Runtime.exceptionThrown")
    problems_.push_back("exception: " + parameters["exceptionDetails"].dump());
  if (method == "Runtime.consoleAPICalled") problems_.push_back("console: " + parameters.dump());
  if (method == "Log.entryAdded") problems_.push_back("log: " + parameters["entry"].dump());
  // A page's own blobs are no requests: they are in its memory.
  if (method == "Network.requestWillBeSent" && parameters["request"]["url"] != url_ &&
      !parameters["request"]["url"].get<std::string>().starts_with("blob:"))
    problems_.push_back("request: " + parameters["request"]["url"].get<std::string>());
}

json Chromium::call(const std::string& method, json parameters) {
  json message{{"id", ++last_id_}, {"method", method}, {"params", std::move(parameters)}};
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump() + '\0';
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = write(to_, text.data() + sent, text.size() - sent);
    if (n < 0 && errno != EINTR) throw std::runtime_error("Chromium has ended; is it installed?");
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
  for (;;) {
    const json answer = receive();
    if (answer.value("id", 0) != last_id_) {
      notice(answer);
      continue;
    }
    if (answer.contains("error")) throw std::runtime_error(method + ": " + answer["error"].dump());
    return answer["result"];
  }
}

void Chromium::open(const std::filesystem::path& file, const std::string& fragment) {
  call("Page.navigate", {{"url", "about:blank"}});
  while (evaluate("location.href") != "about:blank") usleep(5'000);
  problems_.clear();
  url_ = "file://" + file.string();
  call("Page.navigate", {{"url", url_ + fragment}});
  const auto there = [&] {
    return evaluate("location.href.replace(/#.*/, '')") == url_ &&
           evaluate("document.readyState") == "complete";
  };
  const auto patience = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (!there()) {
    if (std::chrono::steady_clock::now() > patience)
      throw std::runtime_error(url_ + " does not load");
    usleep(5'000);
  }
}

json Chromium::evaluate(const std::string& expression) {
  const json answer = call("Runtime.evaluate", {{"expression", expression},
                                                {"returnByValue", true},
                                                {"awaitPromise", true},
                                                {"userGesture", true}});
  if (answer.contains("exceptionDetails"))
    throw std::runtime_error(expression + ": " + answer["exceptionDetails"].dump());
  return answer["result"].value("value", json());
}

void Chromium::show_as(int width, int height, const std::string& scheme,
                       const std::string& medium) {
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
  call("Emulation.setEmulatedMedia",
       {{"media", medium},
        {"features", json::array({{{"name", "prefers-color-scheme"}, {"value", scheme}}})}});
  // Two frames: the observers of sizes have run, and what they drew is laid out.
  evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
}

void Chromium::move(double x, double y) {
  call("Input.dispatchMouseEvent", {{"type", "mouseMoved"}, {"x", x}, {"y", y}});
}

void Chromium::click(double x, double y) {
  for (const char* type : {"mousePressed", "mouseReleased"})
    call("Input.dispatchMouseEvent",
         {{"type", type}, {"x", x}, {"y", y}, {"button", "left"}, {"clickCount", 1}});
}

void Chromium::click(const std::string& selector) {
  const json at =
      evaluate("(() => { const e = document.querySelector(" + json(selector).dump() +
               "); e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
               " return [b.left + b.width / 2, b.top + b.height / 2]; })()");
  click(at[0].get<double>(), at[1].get<double>());
}

void Chromium::press(const std::string& key) {
  static const std::map<std::string, int> codes{
      {"Tab", 9},        {"Enter", 13},      {"End", 35},       {"Home", 36}, {"ArrowUp", 38},
      {"ArrowLeft", 37}, {"ArrowRight", 39}, {"ArrowDown", 40}, {"+", 187},   {"-", 189}};
  json event{{"key", key}, {"code", key}, {"windowsVirtualKeyCode", codes.at(key)}};
  if (key == "Enter") event["text"] = "\r";
  for (const char* type : {"keyDown", "keyUp"}) {
    event["type"] = type;
    call("Input.dispatchKeyEvent", event);
  }
}

void Chromium::type(const std::string& text) { call("Input.insertText", {{"text", text}}); }

void Chromium::screenshot(const std::filesystem::path& file) {
  const json answer =
      call("Page.captureScreenshot", {{"format", "png"}, {"captureBeyondViewport", true}});
  std::ofstream(file, std::ios::binary) << from_base64(answer.at("data").get<std::string>());
}

}  // namespace ac_advisor::test
