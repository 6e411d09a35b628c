"""How the assistant answers: in sound or text, by which instructions, with which tools. A response may have another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from voxrtc.chat.events import EventError
from voxrtc.chat.reply import Ask, NamedTool, Said, Tool, ToolCall, ToolResult
from voxrtc.chat.session_settings import Function, ReplySettings

Modality = Literal["audio", "text"]


@dataclass(frozen=True)
class Manner:
    instructions: str
    modality: Modality = "audio"
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required"] | NamedTool = "auto"
    max_tokens: int | None = None

    def updated(self, wish: ReplySettings, param: str) -> Manner:
        """With what is wished, `param` ("session" or "response") being where. Raises `EventError`."""
        new = self
        if wish.instructions is not None:
            new = replace(new, instructions=wish.instructions)
        if wish.output_modalities is not None:
            new = replace(new, modality=_modality(wish.output_modalities, f"{param}.output_modalities"))
        if wish.tools is not None:
            tools = tuple(Tool(each.name, each.description, each.parameters or {}) for each in wish.tools)
            new = replace(new, tools=tools)
        if wish.tool_choice is not None:
            choice = NamedTool(wish.tool_choice.name) if isinstance(wish.tool_choice, Function) else wish.tool_choice
            new = replace(new, tool_choice=choice)
        if wish.max_output_tokens is not None:
            new = replace(new, max_tokens=None if wish.max_output_tokens == "inf" else wish.max_output_tokens)
        new._check_choice(f"{param}.tool_choice")
        return new

    def ask(self, messages: list[Said | ToolCall | ToolResult]) -> Ask:
        system = [Said("system", self.instructions)] if self.instructions else []
        return Ask([*system, *messages], list(self.tools), self.tool_choice, self.max_tokens)

    def describe(self) -> dict[str, Any]:
        """Its part of a session object."""
        choice = self.tool_choice
        return {
            "instructions": self.instructions,
            "output_modalities": [self.modality],
            "tools": [
                {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
                for tool in self.tools
            ],
            "tool_choice": {"type": "function", "name": choice.name} if isinstance(choice, NamedTool) else choice,
            "max_output_tokens": self.max_tokens or "inf",
        }

    def _check_choice(self, param: str) -> None:
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.name not in {tool.name for tool in self.tools}:
            names = ", ".join(tool.name for tool in self.tools) or "none"
            raise EventError("invalid_value", f"There is no tool {self.tool_choice.name!r} to choose. Tools: {names}.", param)


def _modality(modalities: list[Modality], param: str) -> Modality:
    if len(modalities) != 1:
        raise EventError(
            "invalid_value", "A response is either ['audio'], which comes with its transcript, or ['text'].", param
        )
    return modalities[0]
