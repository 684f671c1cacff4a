// yaml-cpp's tree as Node, within bounds.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

#include "ac_advisor/model/error.hpp"
#include "intake/document.hpp"

namespace ac_advisor::intake {
namespace {

constexpr int most_depth = 32;
constexpr std::size_t most_nodes = 20000;  // a bomb of aliases has millions

// Stops the parser at a second document. A stray "," is to yaml-cpp 0.7 an empty document that it
// does not consume: YAML::LoadAll never returns.
class OneDocument : public YAML::EventHandler {
 public:
  explicit OneDocument(const std::string& path) : path_(path) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      throw UserError(fmt::format(
          "{}:{}: a second document, or what YAML does not expect here; a training file "
          "is one document",
          path_, mark.line + 1));
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  const std::string& path_;
  int documents_ = 0;
};

void expect_one_document(const std::string& text, const std::string& path) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  OneDocument one(path);
  while (parser.HandleNextDocument(one)) {
  }
}

class Converter {
 public:
  explicit Converter(const std::string& path) : path_(path) {}

  Node node(const YAML::Node& from, int depth) {
    Node to;
    to.line = from.Mark().line + 1;
    if (depth > most_depth) fail(to.line, fmt::format("nested more than {} deep", most_depth));
    if (++nodes_ > most_nodes)
      fail(to.line, fmt::format("more than {} values, aliases counted each time", most_nodes));
    switch (from.Type()) {
      case YAML::NodeType::Scalar:
        to.kind = from.Tag() != "!" &&
                          (from.Scalar() == "~" || from.Scalar() == "null" || from.Scalar().empty())
                      ? Node::Kind::null
                      : Node::Kind::scalar;
        to.text = from.Scalar();
        break;
      case YAML::NodeType::Sequence:
        to.kind = Node::Kind::list;
        for (const YAML::Node& item : from) to.items.push_back(node(item, depth + 1));
        break;
      case YAML::NodeType::Map:
        to.kind = Node::Kind::map;
        members(from, to, depth);
        break;
      case YAML::NodeType::Null:
      case YAML::NodeType::Undefined:
        break;
    }
    return to;
  }

 private:
  const std::string& path_;
  std::size_t nodes_ = 0;

  [[noreturn]] void fail(int line, const std::string& why) const {
    throw UserError(fmt::format("{}:{}: {}", path_, line, why));
  }

  void members(const YAML::Node& from, Node& to, int depth) {
    std::vector<Node> merged;
    for (const auto& member : from) {
      if (!member.first.IsScalar())
        fail(member.first.Mark().line + 1, "a key that is no plain word");
      const std::string key = member.first.Scalar();
      const int line = member.first.Mark().line + 1;
      Node value = node(member.second, depth + 1);
      value.line = line;
      if (key == "<<") {
        if (value.kind == Node::Kind::list)
          for (Node& item : value.items) merged.push_back(std::move(item));
        else
          merged.push_back(std::move(value));
        continue;
      }
      if (const Node* twice = to.find(key))
        fail(line,
             fmt::format("{} stands twice, in line {} too; keep one", plain(key), twice->line));
      to.members.push_back({key, std::move(value)});
    }
    // What is written here wins over what is merged in, an earlier merge over a later one.
    for (Node& base : merged) {
      if (base.kind != Node::Kind::map) fail(base.line, "<< merges a map; this is none");
      for (auto& [key, value] : base.members)
        if (to.find(key) == nullptr) to.members.push_back({key, std::move(value)});
    }
  }
};

}  // namespace

Node parse_document(const std::string& text, const std::string& path) {
  try {
    expect_one_document(text, path);
    return Converter(path).node(YAML::Load(text), 0);
  } catch (const YAML::Exception& error) {
    throw UserError(fmt::format("{}:{}: not YAML: {}", path, error.mark.line + 1, error.msg));
  }
}

}  // namespace ac_advisor::intake
