--- Starts and stops the test server (server.c lists what it can do).
---
---     local server = require "server"
---     local s <close> = server.start { tls = true }
---     pump:submit { url = s.url .. "/v1/chat/completions?status=429&h=retry-after:1" }
---     s:next("status=500", "close=1", "")      -- for the next three requests, whatever their path
---     assert.equal(3, s:counters().requests)

local json = require "ponder.json"
local calls = require "calls"
local merge = require("ponder.base.options").merge
local net = require "ponder.core.net"
local shell = require "shell"

local server = {}

---@class Server
---@field url string "http://127.0.0.1:PORT"
---@field raw_url string torn replies: see server_raw.c
---@field tls_url string? "https://localhost:PORT"; the certificate names localhost only
---@field ca_file string? trusts the certificate
---@field pid integer
local Server = {}
Server.__index = Server

local function run(command)
    local ok, _, status = os.execute(command)
    assert(ok, ("%s: status %s"):format(command, status))
end

local function make_certificate()
    local base = os.tmpname()
    run(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        .. "-subj /CN=localhost -addext subjectAltName=DNS:localhost "
        .. "-keyout %s.key -out %s.crt 2>/dev/null"):format(base, base))
    return base
end

--- Starts a server; it ends with `stop`, at the end of its `<close>` scope, or with this process.
---@param opts? { tls?: boolean }
---@return Server
function server.start(opts)
    local base = opts and opts.tls and make_certificate()
    local files = base and ("%s.key %s.crt"):format(base, base) or ""
    local program = shell.quote(shell.build "server")
    local pipe = assert(io.popen(("exec %s %s"):format(program, files), "r"))
    local line = pipe:read("l") or ""
    local pid, port, raw, tls = line:match("^(%d+) (%d+) (%d+) ?(%d*)$")
    assert(pid, "the test server did not start")
    return setmetatable({
        url = "http://127.0.0.1:" .. port,
        raw_url = "http://127.0.0.1:" .. raw,
        tls_url = base and "https://localhost:" .. tls,
        ca_file = base and base .. ".crt",
        pid = math.tointeger(pid),
        pipe = pipe,
        base = base,
        pump = assert(net.open { proxy = "" }),
    }, Server)
end

---Text as a steering value: percent-encoded.
---@param bytes string
---@return string
function server.encode(bytes)
    return (bytes:gsub("[^%w]", function(c)
        return ("%%%02X"):format(c:byte())
    end))
end

---The name of a body in what `bodies` gives.
---@param body string
---@return string
function server.hash(body)
    local h = -3750763034362895579 -- FNV-1a, as in server_text.c
    for i = 1, #body do
        h = (h ~ body:byte(i)) * 1099511628211
    end
    return ("%016x"):format(h | 1)
end

---One request to the server's own paths; waits for the answer.
---@param path string
---@param body? string
---@return string
function Server:fetch(path, body)
    self.pump:submit { url = self.url .. path, body = body, timeout_ms = 10000 }
    local batch = {}
    repeat
        local n = calls.poll(self.pump, 10000, batch)
    until n > 0
    return assert(batch[3].body, batch[3].error)
end

---Steers the next requests, one line each; "" lets one pass.
---@param ... string
function Server:next(...)
    self:fetch("/_next", table.concat({ ... }, "\n") .. "\n")
end

---@return { requests: integer, connections: integer, in_flight: integer, max_in_flight: integer,
---aborted: integer, distinct_bodies: integer, most_repeated: integer, raw_requests: integer }
function Server:counters()
    return json.decode(self:fetch("/_counters"))
end

---How often each body has come.
---@return table<string, integer> by server.hash
function Server:bodies()
    return json.decode(self:fetch("/_bodies"))
end

---The last request: its line, headers and body, as the server got them.
---@return string
function Server:request()
    return self:fetch("/_request")
end

---Zeroes the counters and forgets what `next` queued.
function Server:reset()
    self:fetch("/_reset", "")
end

---A client of models that neither the environment nor a config file changes, with connections of
---its own: `self.wire`, which `stop` closes.
---@return table client of model.client
function Server:client()
    self.wire = require("ponder.model.transport").new()
    return require("ponder.model").client { transport = self.wire, config = {},
        env = function() return nil end }
end

---One call over a pump, from its submission to its end.
---@param pump ponder.net.Pump with nothing pending
---@param path string
---@param opts? ponder.net.SubmitOptions without its url
---@return ponder.net.Result result
---@return string[] data of its events
function Server:get(pump, path, opts)
    return calls.call(pump, merge({ url = self.url .. path }, opts))
end

---The same for a reply of these bytes (server_raw.c), over a pump of its own: the server closes its
---connections.
---@param bytes string
---@param query? string "&end=reset"
---@param opts? ponder.net.SubmitOptions without its url
function Server:raw(bytes, query, opts)
    local pump <close> = net.open { proxy = "", timeout_ms = 5000 }
    return calls.call(pump, merge({
        url = self.raw_url .. "/?reply=" .. server.encode(bytes) .. (query or "") }, opts))
end

function Server:stop()
    if self.wire then
        self.wire:close()
    end
    if self.pipe then
        self.pump:close()
        run("kill " .. self.pid)
        self.pipe:close()
        self.pipe = nil
        if self.base then
            os.remove(self.base)
            os.remove(self.base .. ".key")
            os.remove(self.base .. ".crt")
        end
    end
end

Server.__close = Server.stop
Server.__gc = Server.stop

return server
