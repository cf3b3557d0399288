package cli

import (
	"bytes"
	_ "embed"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
)

// bareBash lets completion work in a bash without the package bash-completion.
//
//go:embed complete_bash.sh
var bareBash string

func newCompletion(a *app) *cobra.Command {
	var plainly bool
	add := func(shell, how string, generate func(root *cobra.Command, w io.Writer, described bool) error) *cobra.Command {
		return &cobra.Command{
			Use: shell, Short: "Print the completion script for " + shell, Long: "Print the completion script for " + shell + ".\n\n" + how,
			Args: cmdline.Arguments(0, 0),
			RunE: func(cmd *cobra.Command, _ []string) error { return generate(cmd.Root(), a.env.Stdout, !plainly) },
		}
	}
	cmd := group("completion", "Print a script that has a shell complete commands, flags, sessions and more",
		add("bash", "In this shell:\n\n  source <(maestro completion bash)\n\nIn every one:\n\n"+
			"  mkdir -p ~/.local/share/bash-completion/completions\n  maestro completion bash > ~/.local/share/bash-completion/completions/maestro\n\n"+
			"or, without the package bash-completion:\n\n  echo 'source <(maestro completion bash)' >> ~/.bashrc", bashCompletion),
		add("zsh", "In this shell:\n\n  autoload -Uz compinit && compinit\n  source <(maestro completion zsh)\n\nIn every one:\n\n"+
			"  mkdir -p ~/.zfunc\n  maestro completion zsh > ~/.zfunc/_maestro\n\nwith these lines in ~/.zshrc:\n\n"+
			"  fpath=(~/.zfunc $fpath)\n  autoload -Uz compinit && compinit", zshCompletion),
		add("fish", "In this shell:\n\n  maestro completion fish | source\n\nIn every one:\n\n"+
			"  mkdir -p ~/.config/fish/completions\n  maestro completion fish > ~/.config/fish/completions/maestro.fish",
			func(root *cobra.Command, w io.Writer, described bool) error {
				return root.GenFishCompletion(w, described)
			}))
	for _, shell := range cmd.Commands() {
		shell.Flags().BoolVar(&plainly, "no-descriptions", false, "complete without descriptions")
	}
	return cmd
}

// bashCompletion writes cobra's script for bash. What that takes from the package
// bash-completion it gets from ours, which goes to the package where it is there. And
// a comma, between the words of a list, is left as it is: bash would only quote it to
// keep braces from meaning something.
func bashCompletion(root *cobra.Command, w io.Writer, described bool) error {
	var script bytes.Buffer
	if err := root.GenBashCompletionV2(&script, described); err != nil {
		return err
	}
	const trims = `__maestro_handle_special_char "$cur" =` + "\n"
	_, err := strings.NewReplacer("_filedir", "__maestro_filedir", trims, trims+`    COMPREPLY=("${COMPREPLY[@]//\\,/,}")`+"\n").
		WriteString(w, script.String())
	if err == nil {
		_, err = io.WriteString(w, "\n"+bareBash)
	}
	return err
}

// zshCompletion writes cobra's script for zsh. That takes the last equals sign of
// --input=PHASE=PATH for the flag's; we have it take the first.
func zshCompletion(root *cobra.Command, w io.Writer, described bool) error {
	generate := root.GenZshCompletion
	if !described {
		generate = root.GenZshCompletionNoDesc
	}
	var script bytes.Buffer
	if err := generate(&script); err != nil {
		return err
	}
	_, err := strings.NewReplacer(`'-.*='`, `'^-[^=]*='`).WriteString(w, script.String())
	return err
}
