---@meta ponder.core.redis
error("a description for editors, not a module")

--- Connections to Redis (src/queue/redis.h), the base of ponder.redis. Nothing waits here: the port
--- of a connection is posted when it has opened or broken, or has replies.
---@class ponder.core.redis
local redis = {}

--- Begins to connect.
---@param url string "http://host:port", or "https://host:port" for TLS
---@param socket_path string? of a Unix socket, instead of host and port
---@param ca_file string? PEM file of authorities to trust; default the system's
---@param connect_timeout_ms integer
---@return ponder.redis.CoreConnection
function redis.connect(url, socket_path, ca_file, connect_timeout_ms) end

---@class ponder.redis.CoreConnection
local CoreConnection = {}

--- Sends a command as soon as the connection is open; a broken connection drops it.
---@param words (string|number)[]
function CoreConnection:send(words) end

--- Writes commands to the socket at once, as far as that accepts them.
function CoreConnection:flush() end

--- The next reply, in the order of the commands; nothing if there is none yet. A Redis nil is
--- false, even in lists; an error in a list is {error = text}.
---@return boolean? ok false: Redis refused the command
---@return any reply strings, integers and lists of them; or the error
function CoreConnection:take() end

---@return "connecting"|"open"|"broken"
---@return string? message
---@return string? code CONNECT, TIMEOUT, TLS, CLOSED, PROTOCOL, MEMORY
function CoreConnection:state() end

--- The number of its port in ponder.core.loop.
---@return integer
function CoreConnection:port() end

--- Closes it. Commands without a reply may or may not have been executed.
function CoreConnection:close() end

return redis
