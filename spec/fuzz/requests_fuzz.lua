-- What clients send to ponder serve and ponder mcp: each request is answered, with a status that
-- is not the server's failure, and a policy never sees a field of another type. The first byte
-- selects the endpoint.

local json = require "ponder.json"
local policies = require "ponder.serve.http.policies"
local protocol = require "ponder.serve.mcp.server"
local serve = require "ponder.serve"
local transport = require "ponder.model.transport"

local PATHS = { "/v1/chat/completions", "/v1/messages", "/v1/responses", "/mcp" }

local SEEDS = {
    [[0{"model":"echo","messages":[{"role":"user","content":"hi"}],"stream":true,"n":2,]]
        .. [["stop":["x"],"temperature":0.5,"seed":7,"max_tokens":10}]],
    [[0{"model":"echo","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}]],
    [[1{"model":"echo","max_tokens":9,"system":"s","messages":[{"role":"user","content":"hi"}]}]],
    [[2{"model":"echo","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],]]
        .. [["instructions":"x","stream":false}]],
    [[3{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",]]
        .. [["capabilities":{},"clientInfo":{"name":"c","version":"1"}}}]],
    [[4{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":]]
        .. [[{"prompt":"hi"},"_meta":{"progressToken":1}}}]],
    [[4{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}]],
    [[4{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":"x"}}]],
    [[4{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"debug"}}]],
}

local function echo(request)
    assert(type(request.messages) == "table" and type(request.prompt) == "string"
        and type(request.params) == "table", "a field of another type")
    request:think "hm"
    return request.prompt
end

local OPTS = { log = function(text)
    assert(not text:find "ponder/[%w_/]+%.lua:%d", text)
end }

local server, address, net

local function send_web(path, body)
    if not server then
        server = serve.new { policies = { echo = echo }, listen = "127.0.0.1:0", log = OPTS.log }
        address, net = assert(server:start()), transport.new()
    end
    local result = net:send { url = "http://" .. address .. path, method = "POST", body = body,
        headers = { ["content-type"] = "application/json" }, proxy = "", timeout_ms = 20000 }
    assert(not result.code, result.error)
    assert(result.status < 500 or result.status == 501, ("status %d: %s"):format(result.status,
        result.body))
end

local function send_message(text)
    local session = protocol.new { policies = assert(policies.of("echo", echo)), log = OPTS.log }
        :session(function(message) json.encode(message) end)
    local handle = session:receive((json.decode(text)))
    if type(handle) == "table" and handle.join then
        local _, message = handle:join()
        assert(not message, message)
    end
    session:close()
end

local function try(input)
    local kind = (input:byte() or 48) % 5
    if kind == 4 then
        return send_message(input:sub(2))
    end
    return send_web(PATHS[kind + 1], input:sub(2))
end

local function finish()
    if server then
        net:close()
        server:drain()
        server:wait()
    end
end

return { seeds = SEEDS, try = try, finish = finish, slow = true }
