---@meta ponder.core.http
error("a description for editors, not a module")

--- An HTTP/1.1 server on the event loop, the base of ponder.serve.
---@class ponder.core.http
local http = {}

---@class ponder.http.Options each limit has a default
---@field address string "HOST:PORT" (port 0: any free one), "[V6]:PORT", "unix:PATH"
---@field max_connections integer? 10,000
---@field max_connections_per_address integer? 10,000
---@field max_header_bytes integer? 16,384, of the path and the headers
---@field max_body_bytes integer? 16 MiB
---@field max_total_body_bytes integer? 256 MiB, of all requests that have not ended
---@field max_unsent_bytes integer? 4 MiB of a stream
---@field header_timeout_ms integer? 10,000
---@field body_timeout_ms integer? 60,000
---@field idle_timeout_ms integer? 75,000, between requests
---@field keys string? one a line, for requests with `Authorization: Bearer KEY` or
---  `x-api-key: KEY`; the bodies of requests without one are dropped

---@class ponder.http.Server
local Server = {}

---@class ponder.http.Request
---@field id integer
---@field method string
---@field path string percent-decoded, without the query
---@field query table<string, string> the first of each name
---@field headers table<string, string> names in lower case; the first of each name
---@field body string
---@field address string of the client: "127.0.0.1", "unix"
---@field key integer? the number of the key that it has; nil: none
---@field problem string? why it must be refused; its body was dropped: "ambiguous_request",
---  "invalid_path" (a NUL), "uri_too_long", "headers_too_large", "request_too_large", "overloaded"
---  (max_total_body_bytes)

--- Listens. The server closes when it is collected.
---@param opts ponder.http.Options
---@return ponder.http.Server? server
---@return string address with the actual port; or why it cannot listen
function http.listen(opts) end

--- The number of its port in ponder.core.loop, posted when there is something to take.
---@return integer
function Server:port() end

--- The next request.
---@return ponder.http.Request? request nil: none
function Server:take() end

--- The id of a request that was taken and whose client has gone, or of a stream that has room again
--- for what `write` could not take.
---@return integer? id nil: none
---@return boolean? is_gone
function Server:take_news() end

--- Answers a request.
---@param id integer
---@param status integer 200 to 599
---@param headers string[]? names and values in turn, without line ends
---@param body string?
---@return boolean waiting false: it was already answered, or its client has gone
function Server:respond(id, status, headers, body) end

--- Begins a response of unknown length.
---@param id integer
---@param status integer
---@param headers string[]?
---@return boolean waiting
function Server:begin(id, status, headers) end

--- Sends a part of the response, of any size if nothing waits to be sent.
---@param id integer
---@param text string
---@return boolean? written false: its client has gone; nil: not now, since max_unsent_bytes wait
---  for the client
function Server:write(id, text) end

--- Ends the response.
---@param id integer
---@return boolean open
function Server:finish(id) end

--- Closes the connection of a request at once.
---@param id integer
function Server:abort(id) end

--- Stops accepting connections.
function Server:stop_listening() end

---@class ponder.http.Stats
---@field connections integer open now
---@field requests integer received so far
---@field running integer not yet sent
---@field body_bytes integer of the running ones
---@field unsent_bytes integer of streams: they wait for their clients
---@field gone integer whose client has gone

---@return ponder.http.Stats
function Server:stats() end

--- Closes every connection.
function Server:close() end

return http
