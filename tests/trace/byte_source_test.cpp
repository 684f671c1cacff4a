#include "files/byte_source.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <thread>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/trace/read.hpp"
#include "trace/find.hpp"

using namespace ac_advisor;

namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// `printf '{"traceEvents":[]}' | zstd -19`
const std::string zstd_of_nothing =
    std::string("\x28\xb5\x2f\xfd\x04\x68\x91\0\0", 9) + "{\"traceEvents\":[]}" + "lk\x9d\xdd";

std::string unpacked(const std::string& bytes) {
  return files::read_all(*files::open_bytes(bytes, "t"), 1 << 28, "t");
}

std::string error_of(const std::string& bytes) {
  try {
    static_cast<void>(unpacked(bytes));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string write(const std::string& name, const std::string& bytes) {
  const std::string path = std::string(test::binary_dir) + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace

TEST_CASE("gzip is unpacked, also of several members, and behind it nothing is read") {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i) + "\n";
  CHECK(unpacked(gzip(text)) == text);
  CHECK(unpacked(gzip("one, ") + gzip("two")) == "one, two");
  CHECK(unpacked(gzip("one") + std::string(512, '\0')) == "one");
}

TEST_CASE("gzip that is cut off or damaged is refused by name") {
  const std::string packed = gzip(std::string(5000, 'x') + "y");
  for (std::size_t size = 12; size < packed.size(); ++size)
    CHECK(error_of(packed.substr(0, size)) == "t: is cut off: its gzip stream has no end");
  std::string damaged = packed;
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 0x40);
  CHECK(test::has(error_of(damaged), "t: its gzip stream is damaged"));
}

TEST_CASE("a trace is the same plain, packed and through a pipe") {
  const std::string text = test::fixture("kineto_full.json");
  const std::string plain = trace::to_json(trace::read_trace_bytes(text, "t"));
  CHECK(trace::to_json(trace::read_trace(write("packed.json.gz", gzip(text)))) == plain);
  // A name that tells nothing, or the wrong thing.
  CHECK(trace::to_json(trace::read_trace(write("packed.json", gzip(text)))) == plain);

  const std::string pipe = std::string(test::binary_dir) + "/trace_pipe";
  std::filesystem::remove(pipe);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer([&] { std::ofstream(pipe, std::ios::binary) << gzip(text); });
  const std::string piped = trace::to_json(trace::read_trace(pipe));
  writer.join();
  std::filesystem::remove(pipe);
  CHECK(piped == plain);
}

TEST_CASE("zstd is unpacked where this build can, and refused with the way out where not") {
  if (test::has_zstd) {
    CHECK(unpacked(zstd_of_nothing) == "{\"traceEvents\":[]}");
    CHECK(unpacked(zstd_of_nothing + zstd_of_nothing).size() == 36);
    CHECK(test::has(error_of(zstd_of_nothing.substr(0, 20)), "is cut off: its zstd stream"));
    // Its last four bytes are a checksum.
    CHECK(test::has(error_of(zstd_of_nothing.substr(0, zstd_of_nothing.size() - 1) + "x"),
                    "zstd stream is damaged"));
  } else {
    CHECK(test::has(error_of(zstd_of_nothing), "zstd -d"));
  }
}

TEST_CASE("what cannot be read is refused by name") {
  CHECK_THROWS_WITH_AS(static_cast<void>(files::open_source("/no/such/file")),
                       "/no/such/file: No such file or directory", UserError);
  CHECK_THROWS_WITH_AS(static_cast<void>(files::open_source(std::string(test::source_dir))),
                       doctest::Contains("is a folder"), UserError);
  CHECK_FALSE(files::is_plain_file(write("not_plain", gzip("x"))));
  CHECK(files::is_plain_file(write("plain", "x")));
}
