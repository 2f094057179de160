-- What the official conformance suite of the Model Context Protocol asks a server to offer.
-- Prints its URL, and serves until it is ended.

local json = require "ponder.json"
local serve = require "ponder.serve"
local task = require "ponder.task"

local PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    .. "RU5ErkJggg=="
local NOTHING = { type = "object", properties = {} }

local function text(s) return { type = "text", text = s } end
local function image() return { type = "image", data = PNG, mimeType = "image/png" } end
local function resource(uri, mime, s)
    return { type = "resource", resource = { uri = uri, mimeType = mime, text = s } }
end

local policies = {
    test_simple_text = function() return "This is a simple text response for testing." end,
    test_image_content = function() return { content = { image() } } end,
    test_audio_content = function()
        return { content = { { type = "audio", data = "UklGRg==", mimeType = "audio/wav" } } }
    end,
    test_embedded_resource = function()
        return { content = { resource("test://embedded-resource", "text/plain",
            "This is an embedded resource content.") } }
    end,
    test_multiple_content_types = function()
        return { content = { text "Multiple content types test:", image(), resource(
            "test://mixed-content-resource", "application/json", '{"test":"data","value":123}') } }
    end,
    test_error_handling = function()
        return nil, "This tool intentionally returns an error for testing", "FAILED"
    end,
    test_tool_with_logging = function(request)
        for _, s in ipairs { "Tool execution started", "Tool processing data",
            "Tool execution completed" } do
            request:log("info", s)
            task.sleep(0.05)
        end
        return "done"
    end,
    test_tool_with_progress = function(request)
        for done = 0, 100, 50 do
            request:progress(done, 100)
            task.sleep(0.05)
        end
        return "done"
    end,
}
for name, run in pairs(policies) do
    policies[name] = { run = run, parameters = NOTHING, description = name }
end
policies.json_schema_2020_12_tool = { run = function() return "" end, parameters = {
    ["$schema"] = "https://json-schema.org/draft/2020-12/schema", type = "object",
    ["$defs"] = { address = { type = "object", properties = { street = { type = "string" },
        city = { type = "string" } } } },
    properties = { name = { type = "string" }, address = { ["$ref"] = "#/$defs/address" } },
    additionalProperties = false } }

local function messages(...)
    local list = json.array {}
    for i, content in ipairs { ... } do
        list[i] = { role = "user", content = content }
    end
    return { messages = list }
end

local function argument(name)
    return { name = name, description = name, required = true }
end

local PROMPTS = { { name = "test_simple_prompt", description = "simple" },
    { name = "test_prompt_with_arguments", description = "arguments",
        arguments = { argument "arg1", argument "arg2" } },
    { name = "test_prompt_with_embedded_resource", description = "resource",
        arguments = { argument "resourceUri" } },
    { name = "test_prompt_with_image", description = "image" } }

local prompts = { list = function() return PROMPTS end, get = function(name, arguments)
    if name == "test_simple_prompt" then
        return messages(text "This is a simple prompt for testing.")
    elseif name == "test_prompt_with_arguments" then
        return messages(text(("Prompt with arguments: arg1='%s', arg2='%s'"):format(arguments.arg1,
            arguments.arg2)))
    elseif name == "test_prompt_with_embedded_resource" then
        return messages(resource(arguments.resourceUri, "text/plain",
            "Embedded resource content for testing."), text "Please process it.")
    elseif name == "test_prompt_with_image" then
        return messages(image(), text "Please analyze the image above.")
    end
end }

local RESOURCES = { { uri = "test://static-text", name = "text", mimeType = "text/plain" },
    { uri = "test://static-binary", name = "binary", mimeType = "image/png" } }

local resources = { list = function() return RESOURCES end,
    templates = { { uriTemplate = "test://template/{id}/data", name = "template" } },
    get = function(uri)
        local id = uri:match "^test://template/(%w+)/data$"
        local content = id and { mimeType = "application/json", text = json.encode { id = id } }
            or uri == "test://static-text" and { mimeType = "text/plain", text = "Static text." }
            or uri == "test://static-binary" and { mimeType = "image/png", blob = PNG }
        if content then
            content.uri = uri
            return { contents = { content } }
        end
    end }

local server = serve.new { policies = policies, prompts = prompts, resources = resources,
    listen = "127.0.0.1:0", log = function() end }
print("http://" .. assert(server:start()) .. "/mcp")
io.stdout:flush()
server:follow_signals()
server:wait()
