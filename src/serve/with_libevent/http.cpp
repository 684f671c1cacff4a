// The server: libevent's.
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <fmt/format.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/serve/serve.hpp"

namespace ac_advisor::serve {
namespace {

struct Server {
  std::uint16_t port = 0;
  const std::function<std::string()>& page;
};

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* what) const {
    Free(what);
  }
};

bool is_this_address(const char* host, std::uint16_t port) {
  if (host == nullptr) return false;
  const auto is = [&](const std::string& name) {
    return evutil_ascii_strcasecmp(host, name.c_str()) == 0;
  };
  for (const char* name : {"127.0.0.1", "localhost"})
    if (is(fmt::format("{}:{}", name, port)) || (port == 80 && is(name))) return true;
  return false;
}

void answer(evhttp_request* request, void* server) {
  const Server& self = *static_cast<const Server*>(server);
  const evkeyvalq* asked = evhttp_request_get_input_headers(request);
  evkeyvalq* told = evhttp_request_get_output_headers(request);
  for (const auto& [name, value] :
       {std::pair{"X-Content-Type-Options", "nosniff"}, std::pair{"X-Frame-Options", "DENY"},
        std::pair{"Referrer-Policy", "no-referrer"}, std::pair{"Cache-Control", "no-store"},
        std::pair{"Cross-Origin-Resource-Policy", "same-origin"}})
    evhttp_add_header(told, name, value);
  if (!is_this_address(evhttp_find_header(asked, "Host"), self.port))
    return evhttp_send_error(request, 403, "Another host's name");
  if (std::strcmp(evhttp_request_get_uri(request), "/") != 0)
    return evhttp_send_error(request, HTTP_NOTFOUND, nullptr);
  std::string text;
  try {
    text = self.page();
  } catch (const std::exception& error) {
    return evhttp_send_error(request, HTTP_INTERNAL, error.what());
  }
  const std::unique_ptr<evbuffer, Freed<evbuffer_free>> body(evbuffer_new());
  evbuffer_add(body.get(), text.data(), text.size());
  evhttp_add_header(told, "Content-Type", "text/html; charset=utf-8");
  evhttp_send_reply(request, HTTP_OK, nullptr, body.get());
}

void end(evutil_socket_t, short, void* base) {
  event_base_loopbreak(static_cast<event_base*>(base));
}

std::uint16_t port_of(evhttp_bound_socket* socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (getsockname(evhttp_bound_socket_get_fd(socket), reinterpret_cast<sockaddr*>(&address),
                  &size) != 0)
    return 0;
  return ntohs(address.sin_port);
}

/// A listener that cannot accept (no descriptors are left) is asked again in a moment, instead of
/// at once and for ever: connections end meanwhile. libevent tells its callback of no object of
/// ours.
struct Pause {
  evconnlistener* listener = nullptr;
  event* ends = nullptr;
  bool told = false;
} pause_of_listener;

void pause(evconnlistener* listener, void*) {
  constexpr timeval moment{0, 200'000};
  if (!pause_of_listener.told)
    std::fprintf(stderr, "ac-advisor: no further connection: %s\n", std::strerror(errno));
  pause_of_listener.told = true;
  evconnlistener_disable(listener);
  evtimer_add(pause_of_listener.ends, &moment);
}

void go_on(evutil_socket_t, short, void*) { evconnlistener_enable(pause_of_listener.listener); }

}  // namespace

void listen(std::uint16_t port, const std::function<std::string()>& page,
            const std::function<void(std::uint16_t port)>& listening) {
  std::signal(SIGPIPE, SIG_IGN);  // a browser that goes away is no end
  const std::unique_ptr<event_base, Freed<event_base_free>> base(event_base_new());
  const std::unique_ptr<evhttp, Freed<evhttp_free>> http(evhttp_new(base.get()));
  evhttp_set_allowed_methods(http.get(), EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
  evhttp_set_max_headers_size(http.get(), 16 << 10);
  evhttp_set_max_body_size(http.get(), 0);
  evhttp_set_timeout(http.get(), 10);
  evhttp_bound_socket* socket = evhttp_bind_socket_with_handle(http.get(), "127.0.0.1", port);
  if (socket == nullptr)
    throw UserError(fmt::format("--port {}: cannot listen there: {}; 0 takes any that is free",
                                port, std::strerror(errno)));
  const std::unique_ptr<event, Freed<event_free>> resume(evtimer_new(base.get(), go_on, nullptr));
  pause_of_listener = {evhttp_bound_socket_get_listener(socket), resume.get()};
  evconnlistener_set_error_cb(pause_of_listener.listener, pause);
  Server server{port_of(socket), page};
  evhttp_set_gencb(http.get(), answer, &server);
  std::vector<std::unique_ptr<event, Freed<event_free>>> ends;
  for (const int signal : {SIGINT, SIGTERM}) {
    ends.emplace_back(evsignal_new(base.get(), signal, end, base.get()));
    event_add(ends.back().get(), nullptr);
  }
  listening(server.port);
  event_base_dispatch(base.get());
}

}  // namespace ac_advisor::serve
