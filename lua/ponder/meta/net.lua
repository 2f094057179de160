---@meta

--- HTTP transport: one libcurl multi handle, many calls in flight, replies in batches.
---
--- A pump sends requests and returns what arrived. It knows HTTP, server-sent events and JSON
--- lines, but not providers, retries or rate limits (see ponder.model). Nothing blocks, and
--- no Lua code runs inside a libcurl callback.
---
---     local net = require "ponder.core.net"
---     local pump <close> = net.open()
---     local id = pump:submit { url = "http://127.0.0.1:8080/v1/chat/completions", method = "POST",
---                              headers = { ["content-type"] = "application/json" },
---                              body = request, stream = "sse" }
---     local batch, calls = {}, { [id] = my_call }
---     while next(calls) do
---         loop.wait()                       -- ponder.core.loop
---         local n = pump:take(batch)
---         for i = 1, n, 3 do
---             local call, event, value = calls[batch[i]], batch[i + 1], batch[i + 2]
---             if not call then               -- cancelled while this batch was being read
---             elseif event then call:on_event(event, value)            -- value: the event's data
---             else calls[batch[i]] = nil; call:on_result(value) end    -- value: a net.Result
---         end
---     end
---@class ponder.core.net
---@field curl_version string of libcurl: "7.88.1"
local net = {}

---@class ponder.net.OpenOptions
---@field max_in_flight_per_host? integer concurrent calls to one scheme, host and port; default 64
---@field max_total? integer concurrent calls to all hosts; default 256; fewer if file descriptors
---are short (`ulimit -n`)
---@field max_queued? integer waiting calls; default 100000
---@field timeout_ms? integer default for all calls, like the fields below (see SubmitOptions)
---@field connect_timeout_ms? integer
---@field idle_timeout_ms? integer
---@field max_body_bytes? integer
---@field max_line_bytes? integer
---@field max_event_bytes? integer
---@field max_header_bytes? integer
---@field max_redirects? integer
---@field cross_host_redirects? boolean
---@field public_only? boolean
---@field ca_file? string
---@field proxy? string

--- Opens a pump. It belongs to the process that opened it: after a fork the child must open its
--- own. (There `take` and `submit` raise, and closing releases nothing that the parent still uses.)
---@param opts? ponder.net.OpenOptions wrong types raise; numbers are brought into range
---@return ponder.net.Pump?
---@return string? message if libcurl cannot start or memory is short
---@return string? code `NO_MEMORY` or `SERVER`
function net.open(opts) end

---@class ponder.net.SubmitOptions
---@field url string http or https only
---@field method? string default "POST" with a body, else "GET"
---@field headers? table<string, string|number> names to values; sent in the order of their names;
---CR, LF and NUL raise
---@field body? string sent as it is
---@field stream? "sse"|"ndjson" read a 2xx reply as a stream of events; others keep their body
---@field timeout_ms? integer whole call, from leaving the queue to the end; default 600000
---@field connect_timeout_ms? integer name lookup, TCP and TLS; default 5000
---@field idle_timeout_ms? integer streams only: limit for the time without a data event, default
---60000; comments and events named `ping` do not count
---@field max_body_bytes? integer of a reply after decompression, streams too; default 67108864
---@field max_line_bytes? integer of one line of a stream; default 1048576
---@field max_event_bytes? integer all `data:` lines of one event together; default 4194304
---@field max_header_bytes? integer all headers of a reply; default 65536
---@field max_redirects? integer default 5; 0 returns a 3xx reply unchanged
---@field cross_host_redirects? boolean default false: never follow to another host or port, except
---from http to https of the same host
---@field public_only? boolean default false: `DENIED` if the host, or a proxy, has an address of
---this machine or of a private network
---@field ca_file? string PEM file of further authorities to trust; verification cannot be disabled
---@field proxy? string proxy URL, "" for none; default as curl: http_proxy, no_proxy and so on

--- The result of a call: the third of three slots whose second slot is false. `code` is nil if a
--- complete reply arrived, with any status.
---@class ponder.net.Result
---@field status integer? HTTP status; nil when no reply began
---@field headers table<string, string> names in lower case, repeated headers joined by ", "
---@field body string? nil if the reply was read as a stream, or if `code` is set
---@field code string? `TIMEOUT`, `CONNECT` (no connection, or it broke), `TLS`, `TOO_LARGE`,
---`BAD_REPLY` (no valid HTTP, or a redirect not followed), `BAD_REQUEST` (a URL that only libcurl
---found invalid), `NO_MEMORY`, `DENIED` (`public_only`)
---@field error string? one line; never contains a header's value or a URL's userinfo
---@field timeout string? with `TIMEOUT`: "connect", "total" or "idle"
---@field streamed boolean? the reply was read as a stream of events
---@field done boolean? the stream sent `[DONE]` (which is not an event)
---@field malformed boolean? it was read as a stream of events but had only other lines
---@field events integer number of events
---@field event_id string? of a stream: the last `id` of its complete events
---@field retry_ms integer? of a stream: the last `retry`
---@field queue_ms number from `submit` to leaving the queue
---@field connect_ms number until connected, TLS included; 0 on a reused connection
---@field first_byte_ms number? until the first byte of the reply, from leaving the queue
---@field first_event_ms number? until the first data event, from leaving the queue
---@field total_ms number from leaving the queue to the end
---@field new_connections integer connections opened for this call
---@field redirects integer redirects followed
---@field http_version string? "1.0", "1.1", "2"

---@class ponder.net.Stats
---@field queued integer calls waiting
---@field in_flight integer calls sent and not ended
---@field submitted integer since open
---@field completed integer results returned since open
---@field cancelled integer
---@field connections integer connections opened since open
---@field hosts integer hosts with calls now or a limit of their own

---@class ponder.net.Pump
local Pump = {}

--- Queues a call. It leaves the queue when the loop runs, in order of submission for its host.
---
--- Redirects: 307 and 308 repeat the request; 301, 302 and 303 turn a POST into a GET. Only the
--- headers `accept`, `content-type` and `user-agent` are sent to another scheme, host or port. From
--- https to http is refused.
---@param opts ponder.net.SubmitOptions wrong types raise; numbers are brought into range
---@return integer? id 1, 2, 3...: never reused by one pump
---@return string? message
---@return string? code `BAD_REQUEST` (not an http or https URL), `QUEUE_FULL`, `NO_MEMORY`
function Pump:submit(opts) end

--- Takes what has arrived: call it after the pump's port was posted. Fills `batch[1..n]` with
--- groups of three and clears the rest of an earlier batch:
---
---     id, event name, data        one event of a stream; "message" when it had no name
---     id, false, Result           the call has ended; the id is free
---
--- Events of one call come in order and before its result. A JSON line is an event named "message".
---@param batch table a list to overwrite
---@return integer n slots filled, a multiple of 3
function Pump:take(batch) end

--- The number of its port in ponder.core.loop, which is posted when there is something to take.
---@return integer
function Pump:port() end

--- Drops a call, queued or in flight: its connection closes (HTTP/2: its stream), and no later
--- `take` returns anything of it. A batch that was already returned may still have its events.
---@param id integer
---@return boolean was_pending false if it had ended or never existed
function Pump:cancel(id) end

--- Limits the calls in flight to the host of `url`, from now on; running calls continue.
---@param url string its scheme, host and port
---@param max_in_flight integer >= 1
---@return true?
---@return string? message
---@return string? code `BAD_REQUEST`, `NO_MEMORY`
function Pump:limit(url, max_in_flight) end

--- Calls queued or in flight.
---@return integer
function Pump:pending() end

---@return ponder.net.Stats
function Pump:stats() end

--- Drops all calls and closes all connections. May be called again; other methods then raise.
function Pump:close() end

--- Parses a date of HTTP headers (libcurl's curl_getdate).
---@param text string "Sun, 06 Nov 1994 08:49:37 GMT"
---@return integer? seconds since 1970; nil: not a date
function net.parse_date(text) end

return net
