-- ponder serve and ponder mcp with common clients from npm. Without npm or its
-- registry these specs are pending.

local json = require "ponder.json"
local npm = require "npm"
local shell = require "shell"

local POLICIES = [[
return {
    echo = function(r) r:think("hm ") r:write("you said: ") r:write(r.prompt) end,
    fail = function()
        io.stderr:write("fail was asked\n")
        return nil, "no luck", "X"
    end,
    add = { run = function(r) return { sum = r.arguments.a + r.arguments.b } end,
        parameters = { type = "object", required = { "a", "b" },
            properties = { a = { type = "number" }, b = { type = "number" } } } },
    turns = function(r)
        local said = {}
        for i, message in ipairs(r.messages) do said[i] = message.content end
        r:think "hm "
        return "said " .. table.concat(said, "|")
    end,
}]]

describe("clients from npm", function()
    it("can use a policy like a model", function()
        local at = npm.install()
        if not at then
            pending "npm, node 20 or the registry cannot be reached"
            return
        end
        local dir <close> = shell.directory { ["p.lua"] = POLICIES }
        local r = shell.run(([[
            %s serve %s/p.lua --listen 127.0.0.1:0 >$OUT 2>$ERR & pid=$!
            until grep -q ' at http' $ERR; do sleep 0.02; done
            base=$(sed -n 's|.* at \(http://[^/]*\)/v1|\1|p' $ERR)
            PATH="$PATH:/usr/local/bin" node %s/clients.mjs $base %s %s/p.lua >>$OUT
            kill -TERM $pid; wait $pid]]):format(shell.quote(shell.executable), dir.path, at,
            shell.quote(shell.executable), dir.path))
        local got = {}
        for line in r.out:gmatch "[^\n]+" do
            local result = json.decode(line)
            got[result[1]] = result[3] and { table.unpack(result, 2) } or result[2]
        end
        local said, both = "you said: hi", { "hm ", "you said: hi" }
        local tools = { { "add", "echo", "fail", "turns" }, { sum = 3 } }
        local turns = { "said one", "said one|said one|two" }
        local prompt = { "user", "user" }
        local both_versions = { { "2025-11-25", tools, prompt }, { "2026-07-28", tools, prompt },
            { "2026-07-28", tools, prompt } }
        assert.same({
            ["openai models"] = tools[1], ["openai model"] = "echo", ["openai chat"] = said,
            ["openai stream"] = said, ["openai responses"] = said,
            ["openai responses stream"] = said,
            ["openai failed policy"] = { "failed", "InternalServerError", 500, "x" },
            ["openai unknown model"] = { "failed", "NotFoundError", 404, "model_not_found" },
            ["openai responses, next turn"] = turns, ["ai sdk, next turn"] = turns,
            ["ai sdk stream, next turn"] = turns, anthropic = said, ["anthropic stream"] = both,
            ["ai sdk"] = both,
            ["ai sdk stream"] = both, langchain = said, ["langchain stream"] = said,
            ["mcp over stdio"] = tools, ["mcp over http"] = tools,
            ["mcp v2 over stdio"] = both_versions, ["mcp v2 over http"] = both_versions,
        }, got)
        local _, asked = r.err:gsub("fail was asked", "")
        assert.equal(1, asked) -- x-should-retry: false
        assert.equal(0, r.status)
    end)
end)
