---@meta

--- HTTP transport: one libcurl multi handle, many calls in flight, replies in batches.
---
--- A pump sends requests and hands back what arrived. It knows HTTP, server-sent events and JSON
--- lines; it knows nothing of providers, retries or rate limits (see ponder.model). Nothing here
--- blocks except `Pump:poll`, and no Lua code ever runs inside a libcurl callback.
---
---     local net = require "ponder.core.net"
---     local pump <close> = net.open()
---     local id = pump:submit { url = "http://127.0.0.1:8080/v1/chat/completions", method = "POST",
---                              headers = { ["content-type"] = "application/json" },
---                              body = request, stream = "sse" }
---     local batch, calls = {}, { [id] = my_call }
---     while next(calls) do
---         local n = pump:poll(1000, batch)
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
---@field max_in_flight_per_host? integer calls at one time to one scheme, host, port; default 64
---@field max_total? integer calls at one time to all hosts; default 256; fewer where descriptors
---are short (`ulimit -n`): the others wait
---@field max_queued? integer calls waiting for their turn; default 100000
---@field user_agent? string default "ponder/VERSION"; a call's own `user-agent` header wins
---@field timeout_ms? integer default of every call, as are the fields below (see SubmitOptions)
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

--- Opens a pump. A pump belongs to the process that opened it: after a fork the child must open its
--- own (`poll` and `submit` raise there, and closing releases nothing that the parent still uses).
---@param opts? ponder.net.OpenOptions unknown names and wrong types raise
---@return ponder.net.Pump?
---@return string? message when libcurl cannot start or memory is short
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
---@field idle_timeout_ms? integer streams only: longest time without a data event, default 60000;
---comments and events named `ping` do not count
---@field max_body_bytes? integer of a reply after decompression, streams too; default 67108864
---@field max_line_bytes? integer of one line of a stream; default 1048576
---@field max_event_bytes? integer all `data:` lines of one event together; default 4194304
---@field max_header_bytes? integer all headers of a reply; default 65536
---@field max_redirects? integer default 5; 0 hands a 3xx reply over as it is
---@field cross_host_redirects? boolean default false: what was sent goes to no other host or port,
---but from http to https of the same host
---@field public_only? boolean default false: `DENIED` where the host, or a proxy,
---has an address of this machine or of a private network
---@field ca_file? string PEM file of further authorities to trust; verification is never off
---@field proxy? string proxy URL, "" for none; default as curl: http_proxy, no_proxy and so on

--- What became of a call: the third of three slots whose second slot is false.
--- `code` is nil when a whole reply arrived, whatever its status.
---@class ponder.net.Result
---@field status integer? HTTP status; nil when no reply began
---@field headers table<string, string> names in lower case, repeated headers joined by ", "
---@field body string? nil when the reply was read as a stream, or when `code` is set
---@field code string? `TIMEOUT`, `CONNECT` (no connection, or it broke), `TLS`, `TOO_LARGE`,
---`BAD_REPLY` (no valid HTTP, or a redirect not followed), `BAD_REQUEST` (a URL that only libcurl
---found invalid), `NO_MEMORY`, `DENIED` (`public_only`)
---@field error string? one line for people; never holds a header's value or a URL's userinfo
---@field timeout string? with `TIMEOUT`: "connect", "total" or "idle"
---@field streamed boolean? true when the reply was read as a stream of events
---@field done boolean? true when the stream said `[DONE]` (which is not handed over as an event)
---@field malformed boolean? true when it was read as a stream of events and held only other lines
---@field events integer events handed over
---@field event_id string? of a stream: the last `id` of its whole events
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
---@field completed integer results handed over since open
---@field cancelled integer
---@field connections integer connections opened since open
---@field events integer stream events handed over since open
---@field hosts integer hosts with calls now or a limit of their own

---@class ponder.net.Pump
local Pump = {}

--- Queues a call. It leaves the queue in a later `poll`, in order of submission for its host.
---
--- Redirects: 307 and 308 repeat the request; 301, 302 and 303 turn a POST into a GET. To another
--- scheme, host or port only `accept`, `content-type` and `user-agent` go along; from https to http
--- is refused.
---@param opts ponder.net.SubmitOptions unknown names and wrong types raise
---@return integer? id 1, 2, 3...: never used twice by one pump
---@return string? message
---@return string? code `BAD_REQUEST` (not an http or https URL), `QUEUE_FULL`, `NO_MEMORY`
function Pump:submit(opts) end

--- Runs the event loop until there is something to hand over: at most `timeout_ms`, less when an
--- interruption (see ponder.task) arrives. Fills `batch[1..n]` with groups of three and clears
--- what an earlier poll left behind:
---
---     id, event name, data        one event of a stream; "message" when it had no name
---     id, false, Result           the call has ended; the id is free
---
--- Events of one call come in order and before its result. A JSON line is an event named "message".
---@param timeout_ms? number 0 does not wait; nil waits without limit while calls are pending
---@param batch table a list that `poll` may overwrite
---@return integer n slots filled, a multiple of 3
function Pump:poll(timeout_ms, batch) end

--- Fills `batch` as `poll` does with what has come while the event loop ran, and does not wait: for
--- when the pump's port was posted.
---@param batch table
---@return integer n
function Pump:take(batch) end

--- The number of its port in ponder.core.loop, which is posted when there is something to take.
---@return integer
function Pump:port() end

--- Drops a call at once, queued or in flight: its connection closes (HTTP/2: its stream), and no
--- later poll mentions it. A batch already handed over may still hold events of it.
---@param id integer
---@return boolean was_pending false when it had ended or never was
function Pump:cancel(id) end

--- Sets how many calls may be in flight to the host of `url`, from now on; running ones go on.
---@param url string scheme, host and port count
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

--- Drops every call and closes every connection. Safe to call again; other methods then raise.
function Pump:close() end

--- Whether an address is none of this machine's, of a private network, or of a tunnel.
---@param address string "192.0.2.1", "2001:db8::1"
---@return boolean
function net.is_public(address) end

--- Reads a date as HTTP headers have it (libcurl's curl_getdate).
---@param text string "Sun, 06 Nov 1994 08:49:37 GMT"
---@return integer? seconds since 1970; nil: it is not one
function net.parse_date(text) end

---@class ponder.net.ReaderOptions
---@field max_line_bytes? integer default 1048576
---@field max_event_bytes? integer default 4194304

--- The reader that the pump uses for streams, by itself: for replays, tests and other transports.
---@param format "sse"|"ndjson"
---@param opts? ponder.net.ReaderOptions
---@return ponder.net.Reader
function net.reader(format, opts) end

---@class ponder.net.Reader
local Reader = {}

--- Reads the next piece of a stream, cut anywhere. Fills `batch[1..n]` with pairs (event name,
--- data). After a failure the reader gives the same failure again.
---@param bytes string
---@param batch table
---@return integer? n slots filled, a multiple of 2
---@return string? message
---@return string? code `TOO_LARGE`, `NO_MEMORY`
function Reader:feed(bytes, batch) end

--- Ends the stream: hands over a last event that its sender did not close with an empty line.
---@param batch table
---@return integer? n
---@return string? message
---@return string? code
function Reader:finish(batch) end

--- Whether the stream said `[DONE]`. What follows it is not read.
---@return boolean
function Reader:done() end

return net
