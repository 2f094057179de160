---@meta ponder.core.redis
error("a description for editors, not a module")

--- Connections to Redis (src/queue/redis.h), below ponder.redis. Nothing here waits: the port of a
--- connection is posted when it has opened or broken, or has replies.
---@class ponder.core.redis
local redis = {}

--- Begins to connect.
---@param url string "http://host:port", or "https://host:port" for TLS
---@param socket_path string? of a Unix socket, which takes the place of host and port
---@param ca_file string? PEM file of authorities to trust; default the system's
---@param connect_timeout_ms integer
---@return ponder.redis.CoreConnection
function redis.connect(url, socket_path, ca_file, connect_timeout_ms) end

---@class ponder.redis.CoreConnection
local CoreConnection = {}

--- Sends a command, once the connection is open; one that is broken drops it.
---@param words (string|number)[]
function CoreConnection:send(words) end

--- The reply to the oldest command that it has not been taken of; nothing while there is none. nil
--- of Redis is false, also in lists; an error in a list is {error = text}.
---@return boolean? ok false: Redis has refused the command
---@return any reply strings, integers and lists of them; or why it was refused
function CoreConnection:take() end

---@return "connecting"|"open"|"broken"
---@return string? message
---@return string? code CONNECT, TIMEOUT, TLS, CLOSED, PROTOCOL, MEMORY
function CoreConnection:state() end

--- The number of its port in ponder.core.loop.
---@return integer
function CoreConnection:port() end

--- Closes it: what was sent and not answered may have been done or not.
function CoreConnection:close() end

return redis
