// `ac-advisor serve` as a browser, and what a hostile page or neighbour, sees it.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/serve/serve.hpp"
#include "test_paths.hpp"

using namespace ac_advisor;
namespace fs = std::filesystem;

namespace {

constexpr const char* small_page =
    R"(<html><script type="application/json" id="given">{}</script></html>)";

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

fs::path fresh_folder(const char* name) {
  const fs::path folder = fs::path(test::binary_dir) / "serve" / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

/// The program, serving `folder` with the small page until this goes.
class Served {
 public:
  /// `descriptors`: as many as it may have open; 0: as this test.
  explicit Served(const fs::path& folder, rlim_t descriptors = 0) {
    const fs::path page = folder.string() + ".html";  // of this test: others run beside it
    write(page, small_page);
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    process_ = fork();
    if (process_ == 0) {
      dup2(ends[1], 2);
      close(ends[0]);
      if (chdir(folder.c_str()) != 0) _exit(126);
      const rlimit limit{descriptors, descriptors};
      if (descriptors > 0 && setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(126);
      execl(std::string(test::program).c_str(), "ac-advisor", "serve", "--page", page.c_str(),
            nullptr);
      _exit(127);
    }
    close(ends[1]);
    std::string said;
    for (char c; said.find('\n') == std::string::npos && read(ends[0], &c, 1) == 1;) said += c;
    said_ = ends[0];
    fcntl(said_, F_SETFL, O_NONBLOCK);
    const std::size_t at = said.find("http://127.0.0.1:");
    REQUIRE(at != std::string::npos);
    port = std::stoi(said.substr(at + 17));
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  ~Served() {
    if (process_ > 0) end();
    close(said_);
  }

  /// Asks it to end; its exit code.
  int end() {
    kill(process_, SIGTERM);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  /// A connection on which nothing is asked.
  [[nodiscard]] int connect_to() const {
    const int to = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    REQUIRE(connect(to, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return to;
  }

  /// What it has written to stderr since its first line.
  [[nodiscard]] const std::string& said() {
    char bytes[4096];
    for (ssize_t n = 0; (n = read(said_, bytes, sizeof bytes)) > 0;)
      text_.append(bytes, static_cast<std::size_t>(n));
    return text_;
  }

  /// Spent so far: fields 14 and 15 of proc(5)'s stat, behind the name in parentheses.
  [[nodiscard]] double cpu_seconds() const {
    std::ifstream file("/proc/" + std::to_string(process_) + "/stat");
    std::string word;
    double ticks = 0;
    for (int field = 1; field <= 15 && file >> word; ++field)
      if (field >= 14) ticks += std::stod(word);
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  /// The whole answer to one request, whose last header closes the connection.
  [[nodiscard]] std::string ask(const std::string& line, const std::string& host) const {
    const int to = connect_to();
    const std::string request = line + "\r\n" + (host.empty() ? "" : "Host: " + host + "\r\n") +
                                "Connection: close\r\n\r\n";
    REQUIRE(::write(to, request.data(), request.size()) == static_cast<ssize_t>(request.size()));
    std::string answer;
    for (char bytes[4096]; const ssize_t n = read(to, bytes, sizeof bytes);) {
      if (n < 0) break;
      answer.append(bytes, static_cast<std::size_t>(n));
    }
    close(to);
    return answer;
  }
  [[nodiscard]] std::string here() const { return "127.0.0.1:" + std::to_string(port); }

  int port = 0;

 private:
  pid_t process_ = -1;
  int said_ = -1;
  std::string text_;
};

int status_of(const std::string& answer) {
  return answer.size() > 12 ? std::stoi(answer.substr(9, 3)) : 0;
}

}  // namespace

TEST_CASE("serve gives the page with the folder's configurations, and ends when it is asked to") {
  const fs::path folder = fresh_folder("given");
  write(folder / "mine" / "config.json", R"({"model_type": "llama"})");
  write(folder / "package.json", R"({"name": "x"})");
  Served served(folder);
  const std::string answer = served.ask("GET / HTTP/1.1", served.here());
  CHECK(status_of(answer) == 200);
  CHECK(answer.find("mine/config.json") != std::string::npos);
  CHECK(answer.find("package.json") == std::string::npos);
  CHECK(answer.find("X-Frame-Options: DENY") != std::string::npos);
  CHECK(answer.find("X-Content-Type-Options: nosniff") != std::string::npos);
  for (const char* name : {"localhost:", "LOCALHOST:", "LocalHost:"})
    CHECK(status_of(served.ask("GET / HTTP/1.1", name + std::to_string(served.port))) == 200);
  // The folder is read at each request.
  write(folder / "later.json", R"({"model_type": "qwen2"})");
  CHECK(served.ask("GET / HTTP/1.1", served.here()).find("later.json") != std::string::npos);
  CHECK(served.end() == 0);
}

TEST_CASE("serve refuses other hosts' names, other paths, other methods and bodies") {
  const fs::path folder = fresh_folder("refused");
  write(folder.parent_path() / "secret.json", R"({"model_type": "llama"})");
  Served served(folder);
  const std::string port = std::to_string(served.port);
  for (const std::string& host :
       {std::string("evil.example:") + port, std::string("evil.example"), std::string(),
        std::string("127.0.0.1:1"), "127.0.0.1:" + port + ".evil.example", "127.0.0.2:" + port}) {
    CAPTURE(host);
    CHECK(status_of(served.ask("GET / HTTP/1.1", host)) >= 400);
  }
  for (const char* path : {"/secret.json", "/../secret.json", "/%2e%2e/secret.json", "//", "/?x",
                           "/mine/../../secret.json", "/etc/passwd", "*", "http://evil.example/"}) {
    CAPTURE(path);
    CHECK(status_of(served.ask("GET " + std::string(path) + " HTTP/1.1", served.here())) >= 400);
  }
  for (const char* method :
       {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "X"}) {
    CAPTURE(method);
    const std::string answer = served.ask(std::string(method) + " / HTTP/1.1", served.here());
    CHECK((answer.empty() || status_of(answer) >= 400));
  }
  CHECK(status_of(served.ask("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'a'), served.here())) !=
        200);
  // It still answers what it should.
  CHECK(status_of(served.ask("GET / HTTP/1.1", served.here())) == 200);
}

TEST_CASE("serve is reached at the loopback address alone, and writes nothing") {
  const fs::path folder = fresh_folder("alone");
  write(folder / "config.json", R"({"model_type": "llama"})");
  const fs::file_time_type before = fs::last_write_time(folder);
  Served served(folder);
  CHECK(status_of(served.ask("GET / HTTP/1.1", served.here())) == 200);
  // Linux answers at all of 127/8 where a program listens at every address.
  const int to = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in other{};
  other.sin_family = AF_INET;
  other.sin_port = htons(static_cast<std::uint16_t>(served.port));
  inet_pton(AF_INET, "127.0.0.2", &other.sin_addr);
  CHECK(connect(to, reinterpret_cast<sockaddr*>(&other), sizeof other) != 0);
  close(to);
  CHECK(served.end() == 0);
  CHECK(fs::last_write_time(folder) == before);
  CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);
}

TEST_CASE("serve without descriptors for a further connection waits and says so once") {
  const fs::path folder = fresh_folder("descriptors");
  constexpr int descriptors = 24;
  Served served(folder, descriptors);
  std::vector<int> held;
  for (int i = 0; i < 2 * descriptors; ++i) held.push_back(served.connect_to());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  CHECK(served.said().size() < 200);
  CHECK(served.said().find("no further connection: Too many open files") != std::string::npos);
  CHECK(served.cpu_seconds() < 0.5);
  for (const int to : held) close(to);
  CHECK(status_of(served.ask("GET / HTTP/1.1", served.here())) == 200);
}

TEST_CASE("of a folder of large files the configuration is offered") {
  const fs::path folder = fresh_folder("large_files");
  const std::string large =
      R"({"list": [1,2,3], "x": {"model_type": ")" + std::string((1 << 20) - 100, 'x') + "\"}}";
  for (int i = 0; i < 100; ++i) write(folder / (std::to_string(i) + ".json"), large);
  write(folder / "z" / "config.json", R"({"model_type": "llama"})");
  const auto files = serve::offered_files(folder);
  REQUIRE(files.size() == 1);
  CHECK(files[0].name == "z/config.json");
  fs::remove_all(folder);
}

TEST_CASE("what is offered stays in the folder: no links, no hidden folders, nothing too large") {
  const fs::path folder = fresh_folder("offered");
  const fs::path outside = fresh_folder("outside");
  const std::string text = R"({"model_type": "llama"})";
  write(outside / "config.json", text);
  write(folder / "b.json", text);
  write(folder / "a" / "config.json", text);
  write(folder / "1" / "2" / "3" / "config.json", text);
  write(folder / "1" / "2" / "3" / "4" / "too_deep.json", text);
  write(folder / ".git" / "config.json", text);
  write(folder / ".hidden.json", text);
  write(folder / "broken.json", "{");
  write(folder / "list.json", "[1]");
  write(folder / "large.json", R"({"model_type": ")" + std::string(1 << 20, 'x') + "\"}");
  fs::create_symlink(outside / "config.json", folder / "link.json");
  fs::create_directory_symlink(outside, folder / "linked");
  std::vector<std::string> names;
  for (const serve::Offered& file : serve::offered_files(folder)) names.push_back(file.name);
  CHECK(names == std::vector<std::string>{"1/2/3/config.json", "a/config.json", "b.json"});
  CHECK(serve::offered_files(folder / "not_there").empty());
}

TEST_CASE("names and texts of files are data in the page, never markup") {
  const std::string page =
      serve::page_with(small_page, {{"</script><img src=x>.json", "</script><!--{{data}}"}});
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.find("<!--") == std::string::npos);
  const std::size_t from = page.find("{\"files\"");
  REQUIRE(from != std::string::npos);
  const auto given = nlohmann::json::parse(page.substr(from, page.find("</script>") - from));
  CHECK(given["files"][0]["name"] == "</script><img src=x>.json");
  CHECK(given["files"][0]["text"] == "</script><!--{{data}}");
  CHECK_THROWS_WITH_AS(static_cast<void>(serve::page_with("<html>", {})),
                       "the page is not the one that web/ makes", UserError);
}

TEST_CASE("a page that is not there is told with what makes it") {
  CHECK_THROWS_WITH_AS(static_cast<void>(serve::page_text("/no/such/page.html")),
                       doctest::Contains("cmake --preset web"), UserError);
}
